//! Where the elements of a document belong: in its array, and in which of its extras. Pure.

/// How large an extras document gets, and how far the array of a main document grows, beside its other fields.
const DOCUMENT_BYTES: usize = 8 * 1024 * 1024;

/// How many elements are where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// In the array of the main document.
    pub(crate) inline: usize,
    /// In each of the extras.
    pub(crate) extras: Vec<usize>,
}

/// Cuts a sequence of elements, of these sizes in bytes: up to the threshold stay in the main document, the rest goes to
/// full extras.
///
/// `in_main` of them are in the main document now, which has so many bytes beside them. They fit there, however large
/// they are. Further ones are put beside them as long as the document stays small enough to be pushed to.
pub(crate) fn lay_out(threshold: usize, cap: usize, sizes: &[usize], in_main: usize, beside: usize) -> Layout {
    let mut inline = in_main.min(threshold).min(sizes.len());
    let mut bytes = beside + sizes[..inline].iter().sum::<usize>();
    while inline < threshold.min(sizes.len()) && bytes + sizes[inline] <= DOCUMENT_BYTES {
        bytes += sizes[inline];
        inline += 1;
    }
    let mut rest = &sizes[inline..];
    let mut extras = Vec::new();
    while !rest.is_empty() {
        let mut sum = 0;
        let fitting = rest.iter().take(cap).take_while(|size| {
            sum += **size;
            sum <= DOCUMENT_BYTES
        });
        let count = fitting.count().max(1);
        extras.push(count);
        rest = &rest[count..];
    }
    Layout { inline, extras }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn the_array_is_filled_first_and_then_extras_of_the_cap() {
        let of = |elements: usize, in_main: usize| {
            let Layout { inline, extras } = lay_out(5, 10, &vec![20; elements], in_main, 100);
            (inline, extras)
        };
        assert_eq!(of(0, 0), (0, vec![]));
        assert_eq!(of(5, 5), (5, vec![]));
        assert_eq!(of(5, 2), (5, vec![]), "what overflowed comes back");
        assert_eq!(of(30, 30), (5, vec![10, 10, 5]));
        assert_eq!(of(26, 3), (5, vec![10, 10, 1]));
    }

    #[test]
    fn large_elements_stay_where_they_are_and_do_not_come_together() {
        let of = |elements: usize, in_main: usize, beside: usize| {
            let Layout { inline, extras } = lay_out(5, 10, &vec![3 * MIB; elements], in_main, beside);
            (inline, extras)
        };
        assert_eq!(of(4, 4, 100), (4, vec![]), "they are there, so they fit");
        assert_eq!(of(8, 0, 100), (2, vec![2, 2, 2]));
        assert_eq!(of(8, 0, 6 * MIB), (0, vec![2, 2, 2, 2]), "beside other fields");
        assert_eq!(lay_out(1, 10, &[1, 15 * MIB, 1, 1], 1, 0).extras, [1, 2]);
    }

    proptest! {
        #[test]
        fn no_element_is_lost_and_a_layout_is_its_own(
            sizes in prop::collection::vec(prop_oneof![4 => 1..100_usize, 1 => MIB..5 * MIB], 0..60),
            in_main in 0..60_usize,
            threshold in 1..12_usize,
            cap in 1..12_usize,
            beside in prop_oneof![0..100_usize, 0..10 * MIB],
        ) {
            let in_main = in_main.min(sizes.len());
            let layout = lay_out(threshold, cap, &sizes, in_main, beside);
            prop_assert_eq!(layout.inline + layout.extras.iter().sum::<usize>(), sizes.len());
            prop_assert!(layout.inline <= threshold && layout.inline >= in_main.min(threshold));
            prop_assert!(layout.extras.iter().all(|count| (1..=cap).contains(count)));
            let mut start = layout.inline;
            for count in &layout.extras {
                let bytes: usize = sizes[start..start + count].iter().sum();
                prop_assert!(bytes <= DOCUMENT_BYTES || *count == 1);
                start += count;
            }
            // Where all is small, the array is full before there are extras, and so are all of them but the last.
            if beside + sizes.iter().sum::<usize>() <= DOCUMENT_BYTES {
                prop_assert_eq!(layout.inline, threshold.min(sizes.len()));
                let last = layout.extras.len().saturating_sub(1);
                prop_assert!(layout.extras.iter().take(last).all(|count| *count == cap));
            }
            // Once more, and nothing changes.
            prop_assert_eq!(&lay_out(threshold, cap, &sizes, layout.inline, beside), &layout);
        }
    }
}
