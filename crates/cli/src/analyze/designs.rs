//! Estimates of each pattern and size for a collection: averages, from the server's sizes before compression.

use super::analysis::ratio;
use super::distribution::Distribution;

/// The number of items on a page of a web site.
pub(crate) const PAGE: u64 = 10;

/// The size of a bucket, overflow document or parent without its items, in bytes.
pub(super) const DOCUMENT: f64 = 90.0;
/// The type byte, the index and the terminator of an element in an array.
pub(super) const ELEMENT: f64 = 4.0;
/// The fields of an item in its own collection: `_id` and the group's field.
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
    /// The documents and bytes that the first page of a list reads.
    pub(crate) page_documents: u64,
    pub(crate) page_bytes: u64,
}

/// Returns the designs to compare.
pub(crate) fn designs(distribution: &Distribution) -> Vec<Design> {
    let mut designs = vec![one_each(distribution)];
    designs.extend([10, 50, 100, 500].map(|size| buckets(distribution, size)));
    designs.push(embedded(distribution));
    let thresholds = distribution.analysis.suggestions();
    let mut thresholds: Vec<u32> = thresholds.iter().map(|at| at.threshold).take(2).collect();
    if thresholds.is_empty() {
        thresholds.push(50);
    }
    thresholds.extend(distribution.threshold);
    thresholds.sort_unstable();
    thresholds.dedup();
    designs.extend(thresholds.into_iter().map(|threshold| outlier(distribution, threshold)));
    designs.push(subset(distribution, PAGE));
    designs
}

struct Shape {
    name: String,
    documents: u64,
    /// The number of stored items, copies included.
    items: u64,
    is_flat: bool,
    /// The number of entries in all indexes.
    entries: u64,
    /// The number of items in the largest document, and in the documents that a page reads.
    largest: u64,
    page: (u64, u64),
}

impl Shape {
    fn design(self, distribution: &Distribution) -> Design {
        let item = distribution.item_bytes + ELEMENT;
        let in_documents = |documents: u64, items: u64| {
            if self.is_flat {
                (distribution.item_bytes + OWN) * ratio(items, 1)
            } else {
                DOCUMENT * ratio(documents, 1) + item * ratio(items, 1)
            }
        };
        Design {
            name: self.name.clone(),
            documents: self.documents,
            bytes: whole(in_documents(self.documents, self.items)),
            index_bytes: whole(distribution.stored.entry_bytes * ratio(self.entries, 1)),
            largest: whole(in_documents(1, self.largest)),
            page_documents: self.page.0,
            page_bytes: whole(in_documents(self.page.0, self.page.1)),
        }
    }
}

fn one_each(distribution: &Distribution) -> Design {
    let items = distribution.analysis.elements;
    Shape {
        name: "one document each".to_owned(),
        documents: items,
        items,
        is_flat: true,
        entries: 2 * items,
        largest: 1,
        page: (PAGE.min(longest(distribution)), PAGE.min(longest(distribution))),
    }
    .design(distribution)
}

pub(crate) fn buckets(distribution: &Distribution, size: u64) -> Design {
    let lengths = distribution.analysis.lengths.iter();
    let documents = lengths
        .clone()
        .map(|lists| lists.documents * lists.length.div_ceil(size))
        .sum();
    let open: u64 = lengths
        .filter(|lists| lists.length % size > 0)
        .map(|lists| lists.documents)
        .sum();
    let full = size.min(longest(distribution));
    Shape {
        name: format!("buckets of {size}"),
        documents,
        items: distribution.analysis.elements,
        is_flat: false,
        entries: documents + open,
        largest: full,
        page: (PAGE.div_ceil(size), full),
    }
    .design(distribution)
}

fn embedded(distribution: &Distribution) -> Design {
    let typical = distribution.analysis.percentile(50.0).unwrap_or(0);
    Shape {
        name: "all embedded".to_owned(),
        documents: distribution.analysis.documents,
        items: distribution.analysis.elements,
        is_flat: false,
        entries: distribution.analysis.documents,
        largest: longest(distribution),
        page: (1, typical),
    }
    .design(distribution)
}

pub(crate) fn outlier(distribution: &Distribution, threshold: u32) -> Design {
    const CAP: u64 = 500;
    let inline = u64::from(threshold);
    let lengths = distribution.analysis.lengths.iter();
    let overflow: u64 = lengths
        .filter(|lists| lists.length > inline)
        .map(|lists| lists.documents * (lists.length - inline).div_ceil(CAP))
        .sum();
    let typical = distribution.analysis.percentile(50.0).unwrap_or(0).min(inline);
    Shape {
        name: format!("outlier at {threshold}"),
        documents: distribution.analysis.documents + overflow,
        items: distribution.analysis.elements,
        is_flat: false,
        entries: distribution.analysis.documents + 2 * overflow,
        largest: inline
            .max(longest(distribution).saturating_sub(inline).min(CAP))
            .min(longest(distribution)),
        page: (1, typical),
    }
    .design(distribution)
}

/// All items in their own collection, and the first ones in their parents also.
pub(crate) fn subset(distribution: &Distribution, size: u64) -> Design {
    let lengths = distribution.analysis.lengths.iter();
    let copies: u64 = lengths.map(|lists| lists.documents * lists.length.min(size)).sum();
    let (parents, items) = (distribution.analysis.documents, distribution.analysis.elements);
    let mut design = Shape {
        name: format!("subset of {size}"),
        documents: parents + items,
        items: copies,
        is_flat: false,
        entries: parents + 3 * items,
        largest: size.min(longest(distribution)),
        page: (1, size.min(longest(distribution))),
    }
    .design(distribution);
    let of_parents = DOCUMENT * ratio(parents, 1) + (distribution.item_bytes + ELEMENT) * ratio(copies, 1);
    design.bytes = whole(of_parents + (distribution.item_bytes + OWN) * ratio(items, 1));
    design
}

pub(crate) fn longest(distribution: &Distribution) -> u64 {
    distribution.analysis.lengths.last().map_or(0, |lists| lists.length)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a nonnegative estimate
pub(super) fn whole(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::analyze::analysis::{Analysis, ListLength};

    use super::*;
    use crate::analyze::distribution::Stored;

    /// Returns a distribution with this number of lists of each length, of items of 100 bytes.
    pub(crate) fn distribution(lengths: &[(u64, u64)]) -> Distribution {
        let mut analysis = Analysis::default();
        for &(length, lists) in lengths {
            analysis.documents += lists;
            analysis.elements += lists * length;
            analysis.lengths.push(ListLength::new(length, lists));
        }
        Distribution {
            namespace: "shop.trades".to_owned(),
            analysis,
            sample: None,
            left_out: (0, ""),
            item_bytes: 100.0,
            stored: Stored {
                entry_bytes: 20.0,
                ..Stored::default()
            },
            threshold: None,
        }
    }

    #[test]
    fn a_list_has_a_bucket_for_each_page_and_an_open_one_for_the_rest() {
        let design = buckets(&distribution(&[(5, 2), (20, 1), (25, 1)]), 10);
        assert_eq!(design.documents, 2 + 2 + 3);
        assert_eq!(design.index_bytes, 20 * (7 + 3));
        assert_eq!((design.page_documents, design.largest), (1, 90 + 10 * 104));
    }

    #[test]
    fn elements_beyond_the_threshold_are_in_overflow_documents() {
        let design = outlier(&distribution(&[(5, 8), (1551, 1)]), 50);
        assert_eq!(design.documents, 9 + 4);
        assert_eq!(design.largest, 90 + 500 * 104);
    }

    #[test]
    fn the_configured_threshold_has_one_row_among_the_suggested_ones() {
        let mut lists = distribution(&[(5, 90), (60, 5), (200, 1)]);
        let rows = |lists: &Distribution| {
            let names = designs(lists).into_iter().map(|design| design.name);
            names.filter(|name| name.starts_with("outlier")).collect::<Vec<_>>()
        };
        assert_eq!(rows(&lists), ["outlier at 5", "outlier at 10"]);
        lists.threshold = Some(7);
        assert_eq!(rows(&lists), ["outlier at 5", "outlier at 7", "outlier at 10"]);
        lists.threshold = Some(10);
        assert_eq!(rows(&lists), ["outlier at 5", "outlier at 10"]);
    }

    #[test]
    fn a_subset_stores_the_first_children_twice() {
        let design = subset(&distribution(&[(5, 2), (20, 1)]), 10);
        assert_eq!(design.documents, 3 + 30);
        assert_eq!(design.bytes, 3 * 90 + 20 * 104 + 30 * 136);
    }
}
