//! The pages of a sequence of items: which items each has, and the tail of its `_id`.
//!
//! # Design
//!
//! ## Why does a page keep the `_id` of the bucket that its first item comes from?
//!
//! If the times of the items named the pages, one item far in the future would push all later pages behind the next appends.

use std::ops::Range;

use mongo_patterns_core::{Error, ErrorKind, Result};

use crate::form::id::{self, Tail};

/// A page of the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The part of its `_id` after the key.
    pub(crate) tail: String,
    /// Its items, by their positions in the sequence.
    pub(crate) items: Range<usize>,
    /// The bucket that it continues: if possible, it has that bucket's `_id` and other fields.
    pub(crate) continues: Option<usize>,
}

/// Cuts a sequence of items into pages, all full but the last, whose tails ascend.
///
/// `old` are the tails of the buckets that contain the items now, normalized and in ascending order. `origins` has the
/// bucket of each item, in ascending order too; the number of the buckets for an item of none. `second` returns the second
/// of an item that has a time.
///
/// The first page whose first item is of a bucket gets that bucket's tail. So ids stay, and never leave the range that they
/// had, whatever the times of the items. A further page gets the second of its first item if it lies between the adjacent
/// bounds, and the next suffix otherwise. Without any bucket, the first item needs a time.
pub(crate) fn lay_out(
    page_size: usize,
    old: &[String],
    origins: &[usize],
    second: impl Fn(usize) -> Option<String>,
) -> Result<Vec<Page>> {
    let mut pages: Vec<Page> = Vec::new();
    let mut named = None;
    let mut start = 0;
    while start < origins.len() {
        let end = origins.len().min(start + page_size);
        let origin = origins[start];
        let continues = (named != Some(origin) && origin < old.len()).then_some(origin);
        named = Some(origin);
        let previous = pages.last().map(|page| page.tail.as_str());
        let is_free = |tail: &str| previous.is_none_or(|previous| tail > previous);
        let below = |tail: &str| old.get(origin + 1).is_none_or(|next| tail < next.as_str());
        let tail = match continues
            .map(|bucket| old[bucket].as_str())
            .filter(|tail| is_free(tail))
        {
            Some(tail) => tail.to_owned(),
            None => match (
                second(start).filter(|second| is_free(second) && below(second)),
                previous,
            ) {
                (Some(second), _) => second,
                (None, Some(previous)) => successor(previous)?,
                (None, None) => return Err(without_time()),
            },
        };
        pages.push(Page {
            tail,
            items: start..end,
            continues,
        });
        start = end;
    }
    Ok(pages)
}

fn without_time() -> Error {
    Error::new(
        ErrorKind::InvalidTime,
        "an item without a time would open a page: set its time",
    )
}

fn successor(tail: &str) -> Result<String> {
    match Tail::parse(tail) {
        Some(tail) => tail.successor(),
        None => id::with_suffix(tail, 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: &str = "1698335223";
    const B: &str = "1698335300";
    const C: &str = "1698335400";

    /// Lays out buckets with this many items each, whose times are ten seconds apart, from the bucket's second.
    fn laid_out(page_size: usize, buckets: &[(&str, usize)]) -> Vec<(String, Range<usize>, Option<usize>)> {
        let old: Vec<String> = buckets.iter().map(|(tail, _)| (*tail).to_owned()).collect();
        let mut origins = Vec::new();
        let mut seconds = Vec::new();
        for (bucket, (tail, items)) in buckets.iter().enumerate() {
            let second: i128 = Tail::parse(tail).unwrap().number();
            for item in 0..*items {
                origins.push(bucket);
                seconds.push(format!("{:010}", second + i128::try_from(item).unwrap() * 10));
            }
        }
        let pages = lay_out(page_size, &old, &origins, |item| Some(seconds[item].clone())).unwrap();
        pages
            .into_iter()
            .map(|page| (page.tail, page.items, page.continues))
            .collect()
    }

    fn page(tail: &str, items: Range<usize>, continues: Option<usize>) -> (String, Range<usize>, Option<usize>) {
        (tail.to_owned(), items, continues)
    }

    #[test]
    fn a_correct_layout_stays() {
        assert_eq!(
            laid_out(3, &[(A, 3), (B, 3), (C, 1)]),
            [page(A, 0..3, Some(0)), page(B, 3..6, Some(1)), page(C, 6..7, Some(2))]
        );
    }

    #[test]
    fn items_that_move_up_leave_the_ids_unchanged() {
        assert_eq!(
            laid_out(3, &[(A, 2), (B, 3), (C, 3)]),
            [page(A, 0..3, Some(0)), page(B, 3..6, Some(1)), page(C, 6..8, Some(2))]
        );
        assert_eq!(
            laid_out(3, &[(A, 1), (B, 1), (C, 1)]),
            [page(A, 0..3, Some(0))],
            "open buckets are merged"
        );
    }

    #[test]
    fn a_split_bucket_is_named_by_its_items_between_the_adjacent_bounds() {
        assert_eq!(
            laid_out(3, &[(A, 7), (C, 1)]),
            [
                page(A, 0..3, Some(0)),
                page("1698335253", 3..6, None),
                page("1698335283", 6..8, None)
            ]
        );
        assert_eq!(
            laid_out(1, &[(A, 3), ("1698335224", 2)]),
            [
                page(A, 0..1, Some(0)),
                page("1698335223_000001", 1..2, None),
                page("1698335223_000002", 2..3, None),
                page("1698335224", 3..4, Some(1)),
                page("1698335234", 4..5, None),
            ],
            "the next bucket is too close for the seconds of the items"
        );
    }

    #[test]
    fn items_of_no_bucket_come_last_and_open_pages_at_their_times() {
        let seconds = |item: usize| Some(format!("{:010}", 1_698_335_500 + item * 10));
        let tails = |page_size: usize, old: &[&str], origins: &[usize]| -> Vec<(String, Option<usize>)> {
            let old: Vec<String> = old.iter().map(|tail| (*tail).to_owned()).collect();
            let pages = lay_out(page_size, &old, origins, seconds).unwrap().into_iter();
            pages.map(|page| (page.tail, page.continues)).collect()
        };
        assert_eq!(
            tails(2, &[A], &[0, 1, 1, 1]),
            [(A.to_owned(), Some(0)), ("1698335520".to_owned(), None)]
        );
        assert_eq!(tails(2, &[], &[0, 0]), [("1698335500".to_owned(), None)]);
        let error = lay_out(2, &[], &[0], |_| None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTime);
    }

    #[test]
    fn taken_suffixes_are_skipped() {
        assert_eq!(
            laid_out(1, &[(A, 2), ("1698335223_000001", 1), (A, 0)]),
            [
                page(A, 0..1, Some(0)),
                page("1698335223_000001", 1..2, None),
                page("1698335223_000002", 2..3, Some(1)),
            ]
        );
    }

    fn tails() -> impl Strategy<Value = Vec<String>> {
        let tail = (0..6_u32, 0..3_u32)
            .prop_map(|(second, suffix)| id::with_suffix(&format!("{:010}", 1_698_335_223 + second), suffix).unwrap());
        prop::collection::vec(tail, 0..12).prop_map(|mut tails| {
            tails.sort();
            tails
        })
    }

    proptest! {
        #[test]
        fn no_item_is_lost_and_pages_are_full_and_in_order(
            old in tails(),
            counts in prop::collection::vec(0..9_usize, 12),
            seconds in prop::collection::vec(prop::option::of(0..12_u32), 120),
            page_size in 1..6_usize,
        ) {
            let counts = &counts[..old.len()];
            let origins: Vec<usize> = counts.iter().enumerate().flat_map(|(bucket, n)| vec![bucket; *n]).collect();
            let second = |item: usize| seconds[item].map(|second| format!("{:010}", 1_698_335_220 + second));
            let pages = lay_out(page_size, &old, &origins, second).unwrap();

            let positions: Vec<usize> = pages.iter().flat_map(|page| page.items.clone()).collect();
            prop_assert_eq!(positions, (0..origins.len()).collect::<Vec<_>>());
            for (number, page) in pages.iter().enumerate() {
                prop_assert!(page.items.len() == page_size || number + 1 == pages.len() && !page.items.is_empty());
            }
            prop_assert!(pages.is_sorted_by(|a, b| a.tail < b.tail));
            let continued: Vec<usize> = pages.iter().filter_map(|page| page.continues).collect();
            prop_assert!(continued.is_sorted_by(|a, b| a < b));

            // A second run changes nothing.
            let old: Vec<String> = pages.iter().map(|page| page.tail.clone()).collect();
            let origins: Vec<usize> =
                pages.iter().enumerate().flat_map(|(number, page)| vec![number; page.items.len()]).collect();
            let again = lay_out(page_size, &old, &origins, second).unwrap();
            prop_assert!(again.iter().zip(&pages).all(|(a, b)| a.tail == b.tail && a.items == b.items));
            prop_assert_eq!(again.len(), pages.len());
        }
    }
}
