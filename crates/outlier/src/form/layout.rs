//! The layout of a list: the elements in the array and in each overflow document.

/// The most bytes of a new overflow document, and of a main document whose array grows.
pub(crate) const DOCUMENT_BYTES: usize = 8 * 1024 * 1024;

/// The numbers of elements by document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The number in the array of the main document.
    pub(crate) inline: usize,
    pub(crate) overflow: Vec<usize>,
}

/// Divides elements with these sizes in bytes: up to the threshold go to the main document, the rest to full overflow
/// documents of up to `max` elements.
///
/// The first `in_main` elements are in the main document now, so they fit. `beside` is the size of its other fields. Further
/// elements join as long as the document leaves room for pushes.
pub(crate) fn lay_out(threshold: usize, max: usize, sizes: &[usize], in_main: usize, beside: usize) -> Layout {
    let mut inline = in_main.min(threshold).min(sizes.len());
    let mut bytes = beside + sizes[..inline].iter().sum::<usize>();
    while inline < threshold.min(sizes.len()) && bytes + sizes[inline] <= DOCUMENT_BYTES {
        bytes += sizes[inline];
        inline += 1;
    }
    let mut rest = &sizes[inline..];
    let mut overflow = Vec::new();
    while !rest.is_empty() {
        let mut sum = 0;
        let fitting = rest.iter().take(max).take_while(|size| {
            sum += **size;
            sum <= DOCUMENT_BYTES
        });
        let count = fitting.count().max(1);
        overflow.push(count);
        rest = &rest[count..];
    }
    Layout { inline, overflow }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn the_array_is_filled_first_and_then_full_overflow_documents() {
        let of = |elements: usize, in_main: usize| {
            let Layout { inline, overflow } = lay_out(5, 10, &vec![20; elements], in_main, 100);
            (inline, overflow)
        };
        assert_eq!(of(0, 0), (0, vec![]));
        assert_eq!(of(5, 5), (5, vec![]));
        assert_eq!(of(5, 2), (5, vec![]), "overflow elements return to the array");
        assert_eq!(of(30, 30), (5, vec![10, 10, 5]));
        assert_eq!(of(26, 3), (5, vec![10, 10, 1]));
    }

    #[test]
    fn large_elements_stay_in_place_and_are_not_put_together() {
        let of = |elements: usize, in_main: usize, beside: usize| {
            let Layout { inline, overflow } = lay_out(5, 10, &vec![3 * MIB; elements], in_main, beside);
            (inline, overflow)
        };
        assert_eq!(of(4, 4, 100), (4, vec![]), "the document has them, so they fit");
        assert_eq!(of(8, 0, 100), (2, vec![2, 2, 2]));
        assert_eq!(of(8, 0, 6 * MIB), (0, vec![2, 2, 2, 2]), "beside other fields");
        assert_eq!(lay_out(1, 10, &[1, 15 * MIB, 1, 1], 1, 0).overflow, [1, 2]);
    }

    proptest! {
        #[test]
        fn no_element_is_lost_and_the_layout_is_idempotent(
            sizes in prop::collection::vec(prop_oneof![4 => 1..100_usize, 1 => MIB..5 * MIB], 0..60),
            in_main in 0..60_usize,
            threshold in 1..12_usize,
            max in 1..12_usize,
            beside in prop_oneof![0..100_usize, 0..10 * MIB],
        ) {
            let in_main = in_main.min(sizes.len());
            let layout = lay_out(threshold, max, &sizes, in_main, beside);
            prop_assert_eq!(layout.inline + layout.overflow.iter().sum::<usize>(), sizes.len());
            prop_assert!(layout.inline <= threshold && layout.inline >= in_main.min(threshold));
            prop_assert!(layout.overflow.iter().all(|count| (1..=max).contains(count)));
            let mut start = layout.inline;
            for count in &layout.overflow {
                let bytes: usize = sizes[start..start + count].iter().sum();
                prop_assert!(bytes <= DOCUMENT_BYTES || *count == 1);
                start += count;
            }
            // Where all documents stay small, the array is full before there are overflow documents, and so are all of
            // these but the last.
            if beside + sizes.iter().sum::<usize>() <= DOCUMENT_BYTES {
                prop_assert_eq!(layout.inline, threshold.min(sizes.len()));
                let last = layout.overflow.len().saturating_sub(1);
                prop_assert!(layout.overflow.iter().take(last).all(|count| *count == max));
            }
            prop_assert_eq!(&lay_out(threshold, max, &sizes, layout.inline, beside), &layout);
        }
    }
}
