//! What each pattern and size would make of a collection. Estimates: averages, of the server's sizes before compression.

use super::{Spread, ratio};

/// How many items a page of a web site shows.
pub(crate) const PAGE: u64 = 10;

/// What a bucket, extras or a parent has beside its items.
pub(super) const DOCUMENT: f64 = 90.0;
/// Type, place and end of an element in an array.
pub(super) const ELEMENT: f64 = 4.0;
/// What an item has in a collection of its own: `_id` and the field of its group.
pub(super) const OWN: f64 = 36.0;

/// A way to store the items.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Design {
    pub(crate) name: String,
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
    pub(crate) index_bytes: u64,
    /// The largest document.
    pub(crate) largest: u64,
    /// What it takes to show the first page of a list.
    pub(crate) page_documents: u64,
    pub(crate) page_bytes: u64,
}

/// All that are worth comparing.
pub(crate) fn designs(spread: &Spread) -> Vec<Design> {
    let mut designs = vec![one_each(spread)];
    designs.extend([10, 50, 100, 500].map(|size| buckets(spread, size)));
    designs.push(embedded(spread));
    let thresholds = spread.analysis.suggestions();
    let mut thresholds: Vec<u32> = thresholds.iter().map(|at| at.threshold).take(2).collect();
    if thresholds.is_empty() {
        thresholds.push(50);
    }
    designs.extend(thresholds.into_iter().map(|threshold| outlier(spread, threshold)));
    designs.push(subset(spread, PAGE));
    designs
}

struct Shape {
    name: String,
    documents: u64,
    /// How many items are stored, copies included.
    items: u64,
    is_flat: bool,
    /// How many entries there are in all indexes.
    entries: u64,
    /// The items of the largest document, and of the documents that a page reads.
    largest: u64,
    page: (u64, u64),
}

impl Shape {
    fn design(self, spread: &Spread) -> Design {
        let item = spread.item_bytes + ELEMENT;
        let in_documents = |documents: u64, items: u64| {
            if self.is_flat {
                (spread.item_bytes + OWN) * ratio(items, 1)
            } else {
                DOCUMENT * ratio(documents, 1) + item * ratio(items, 1)
            }
        };
        Design {
            name: self.name.clone(),
            documents: self.documents,
            bytes: whole(in_documents(self.documents, self.items)),
            index_bytes: whole(spread.stored.entry_bytes * ratio(self.entries, 1)),
            largest: whole(in_documents(1, self.largest)),
            page_documents: self.page.0,
            page_bytes: whole(in_documents(self.page.0, self.page.1)),
        }
    }
}

fn one_each(spread: &Spread) -> Design {
    let items = spread.analysis.elements;
    Shape {
        name: "one document each".to_owned(),
        documents: items,
        items,
        is_flat: true,
        entries: 2 * items,
        largest: 1,
        page: (PAGE.min(longest(spread)), PAGE.min(longest(spread))),
    }
    .design(spread)
}

pub(crate) fn buckets(spread: &Spread, size: u64) -> Design {
    let lengths = spread.analysis.lengths.iter();
    let documents = lengths
        .clone()
        .map(|lists| lists.documents * lists.length.div_ceil(size))
        .sum();
    let open: u64 = lengths
        .filter(|lists| lists.length % size > 0)
        .map(|lists| lists.documents)
        .sum();
    let full = size.min(longest(spread));
    Shape {
        name: format!("buckets of {size}"),
        documents,
        items: spread.analysis.elements,
        is_flat: false,
        entries: documents + open,
        largest: full,
        page: (PAGE.div_ceil(size), full),
    }
    .design(spread)
}

fn embedded(spread: &Spread) -> Design {
    let typical = spread.analysis.percentile(50.0).unwrap_or(0);
    Shape {
        name: "all embedded".to_owned(),
        documents: spread.analysis.documents,
        items: spread.analysis.elements,
        is_flat: false,
        entries: spread.analysis.documents,
        largest: longest(spread),
        page: (1, typical),
    }
    .design(spread)
}

pub(crate) fn outlier(spread: &Spread, threshold: u32) -> Design {
    const CAP: u64 = 500;
    let inline = u64::from(threshold);
    let lengths = spread.analysis.lengths.iter();
    let extras: u64 = lengths
        .filter(|lists| lists.length > inline)
        .map(|lists| lists.documents * (lists.length - inline).div_ceil(CAP))
        .sum();
    let typical = spread.analysis.percentile(50.0).unwrap_or(0).min(inline);
    Shape {
        name: format!("outlier at {threshold}"),
        documents: spread.analysis.documents + extras,
        items: spread.analysis.elements,
        is_flat: false,
        entries: spread.analysis.documents + 2 * extras,
        largest: inline
            .max(longest(spread).saturating_sub(inline).min(CAP))
            .min(longest(spread)),
        page: (1, typical),
    }
    .design(spread)
}

/// All items in a collection of their own, and the first ones in their parents, too.
pub(crate) fn subset(spread: &Spread, size: u64) -> Design {
    let lengths = spread.analysis.lengths.iter();
    let copies: u64 = lengths.map(|lists| lists.documents * lists.length.min(size)).sum();
    let (parents, items) = (spread.analysis.documents, spread.analysis.elements);
    let mut design = Shape {
        name: format!("subset of {size}"),
        documents: parents + items,
        items: copies,
        is_flat: false,
        entries: parents + 3 * items,
        largest: size.min(longest(spread)),
        page: (1, size.min(longest(spread))),
    }
    .design(spread);
    let of_parents = DOCUMENT * ratio(parents, 1) + (spread.item_bytes + ELEMENT) * ratio(copies, 1);
    design.bytes = whole(of_parents + (spread.item_bytes + OWN) * ratio(items, 1));
    design
}

pub(crate) fn longest(spread: &Spread) -> u64 {
    spread.analysis.lengths.last().map_or(0, |lists| lists.length)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // an estimate from 0 on
pub(super) fn whole(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use mongo_patterns_outlier::{Analysis, ListLength};

    use super::*;
    use crate::analyze::Stored;

    /// So many lists of each length, of items of 100 bytes.
    pub(crate) fn spread(lengths: &[(u64, u64)]) -> Spread {
        let mut analysis = Analysis::default();
        for &(length, lists) in lengths {
            analysis.documents += lists;
            analysis.elements += lists * length;
            analysis.lengths.push(ListLength::new(length, lists));
        }
        Spread {
            namespace: "shop.trades".to_owned(),
            analysis,
            sample: None,
            left_out: (0, ""),
            item_bytes: 100.0,
            stored: Stored {
                entry_bytes: 20.0,
                ..Stored::default()
            },
        }
    }

    #[test]
    fn a_bucket_for_each_page_and_an_open_one_for_the_rest() {
        let design = buckets(&spread(&[(5, 2), (20, 1), (25, 1)]), 10);
        assert_eq!(design.documents, 2 + 2 + 3);
        assert_eq!(design.index_bytes, 20 * (7 + 3));
        assert_eq!((design.page_documents, design.largest), (1, 90 + 10 * 104));
    }

    #[test]
    fn extras_are_for_what_is_beyond_the_threshold() {
        let design = outlier(&spread(&[(5, 8), (1551, 1)]), 50);
        assert_eq!(design.documents, 9 + 4);
        assert_eq!(design.largest, 90 + 500 * 104);
    }

    #[test]
    fn a_subset_has_the_first_ones_twice() {
        let design = subset(&spread(&[(5, 2), (20, 1)]), 10);
        assert_eq!(design.documents, 3 + 30);
        assert_eq!(design.bytes, 3 * 90 + 20 * 104 + 30 * 136);
    }
}
