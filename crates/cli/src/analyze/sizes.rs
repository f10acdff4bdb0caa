//! Estimates for subsets of each size: averages, from the server's sizes before compression.

use std::io;

use serde_json::json;

use super::advice::{percent, size};
use super::analysis::ratio;
use super::designs::{DOCUMENT, ELEMENT, OWN, longest, whole};
use super::distribution::Distribution;
use crate::output::{self, Output, grouped};

const SIZES: [u64; 6] = [1, 3, 5, 10, 20, 50];

/// The number of children on a page.
const PAGES: [u64; 3] = [10, 20, 50];

/// The current parents, without their embedded children.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parents {
    pub(crate) documents: u64,
    /// The average size of a parent, in bytes.
    pub(crate) bytes: f64,
}

/// The estimates for one subset size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubsetSize {
    pub(crate) size: u64,
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
    pub(crate) index_bytes: u64,
    /// The average parent, and one with a full subset.
    pub(crate) parent_bytes: u64,
    pub(crate) largest_parent: u64,
    /// For each of [`PAGES`], the number of parents for which such a page needs a second read.
    pub(crate) second_reads: [u64; PAGES.len()],
    /// The number of parents in total.
    pub(crate) parents: u64,
}

pub(crate) fn sizes(distribution: &Distribution, parents: Option<&Parents>) -> Vec<SubsetSize> {
    SIZES.map(|size| of_size(distribution, parents, size)).to_vec()
}

fn of_size(distribution: &Distribution, parents: Option<&Parents>, size: u64) -> SubsetSize {
    let analysis = &distribution.analysis;
    let lengths = || analysis.lengths.iter();
    // Parents without children are counted in their collection only.
    let documents = parents.map_or(0, |parents| parents.documents).max(analysis.documents);
    let own = parents.map_or(DOCUMENT, |parents| parents.bytes + ELEMENT);
    let child = distribution.item_bytes + ELEMENT;
    let copies: u64 = lengths().map(|lists| lists.documents * lists.length.min(size)).sum();
    let of_parents = own * ratio(documents, 1) + child * ratio(copies, 1);
    let of_children = (distribution.item_bytes + OWN) * ratio(analysis.elements, 1);
    let longer: u64 = lengths()
        .filter(|lists| lists.length > size)
        .map(|lists| lists.documents)
        .sum();
    SubsetSize {
        size,
        documents: documents + analysis.elements,
        bytes: whole(of_parents + of_children),
        index_bytes: whole(distribution.stored.entry_bytes * ratio(documents + 3 * analysis.elements, 1)),
        parent_bytes: whole(of_parents / ratio(documents.max(1), 1)),
        largest_parent: whole(own + child * ratio(size.min(longest(distribution)), 1)),
        second_reads: PAGES.map(|page| if page > size { longer } else { 0 }),
        parents: documents,
    }
}

pub(super) fn print(output: Output, sizes: &[SubsetSize]) -> io::Result<()> {
    output.heading("Estimates for subsets of each size")?;
    let mut table = output::new_table();
    let [first, rest @ ..] = PAGES.map(|page| format!("of {page}"));
    let mut header = vec![String::new()];
    header.extend(["documents", "data", "parent", "full"].map(str::to_owned));
    header.push(format!("page {first}"));
    header.extend(rest);
    table.set_header(header);
    for row in sizes {
        let bytes = |bytes: u64| size(ratio(bytes, 1));
        let mut cells = vec![
            format!("subset of {}", row.size),
            grouped(row.documents),
            bytes(row.bytes),
            bytes(row.parent_bytes),
            bytes(row.largest_parent),
        ];
        cells.extend(row.second_reads.map(|parents| percent(ratio(parents, row.parents))));
        table.add_row(cells);
        let second_reads = PAGES.iter().zip(row.second_reads);
        let second_reads: Vec<_> = second_reads
            .map(|(page, parents)| json!({ "page": page, "parents": parents }))
            .collect();
        output.object(&json!({
            "type": "subset_size",
            "size": row.size,
            "documents": row.documents,
            "bytes": row.bytes,
            "index_bytes": row.index_bytes,
            "parents": row.parents,
            "parent_bytes": row.parent_bytes,
            "largest_parent": row.largest_parent,
            "second_reads": second_reads,
        }))?;
    }
    output.table(table)?;
    output.text("The last columns: the share of parents that need a second read for such a page.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::designs::tests::distribution;

    #[test]
    fn a_page_longer_than_the_subset_needs_a_second_read_for_parents_with_more_children() {
        let parents = Parents {
            documents: 10,
            bytes: 200.0,
        };
        let distribution = distribution(&[(2, 4), (10, 2), (30, 1)]);
        let of = |size| of_size(&distribution, Some(&parents), size);
        assert_eq!(of(5).second_reads, [3, 3, 3]);
        assert_eq!(of(10).second_reads, [0, 1, 1]);
        assert_eq!(of(50).second_reads, [0, 0, 0]);
        let ten = of(10);
        assert_eq!((ten.documents, ten.parents), (10 + 58, 10));
        let copies = 8 + 20 + 10;
        assert_eq!(ten.parent_bytes, (10 * 204 + copies * 104) / 10);
        assert_eq!(ten.largest_parent, 204 + 10 * 104);
    }
}
