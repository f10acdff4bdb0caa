//! What subsets of each size would give. Estimates: averages, of the server's sizes before compression.

use std::io;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::json;

use super::advice::{percent, size};
use super::designs::{DOCUMENT, ELEMENT, OWN, longest, whole};
use super::{Spread, ratio};
use crate::output::{Output, WIDTH, grouped};

const SIZES: [u64; 6] = [1, 3, 5, 10, 20, 50];

/// How many children a page shows.
const PAGES: [u64; 3] = [10, 20, 50];

/// The parents as they are, without what is embedded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parents {
    pub(crate) documents: u64,
    /// Of one, on average.
    pub(crate) bytes: f64,
}

/// What a subset of one size would give.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubsetSize {
    pub(crate) size: u64,
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
    pub(crate) index_bytes: u64,
    /// Of a parent, on average, and of one with a full subset.
    pub(crate) parent_bytes: u64,
    pub(crate) largest_parent: u64,
    /// For each of [`PAGES`]: of how many parents such a page needs a second read.
    pub(crate) second_reads: [u64; PAGES.len()],
    /// Of how many in all.
    pub(crate) parents: u64,
}

pub(crate) fn sizes(spread: &Spread, parents: Option<&Parents>) -> Vec<SubsetSize> {
    SIZES.map(|size| of_size(spread, parents, size)).to_vec()
}

fn of_size(spread: &Spread, parents: Option<&Parents>, size: u64) -> SubsetSize {
    let analysis = &spread.analysis;
    let lengths = || analysis.lengths.iter();
    // Those without children are in their collection alone.
    let documents = parents.map_or(0, |parents| parents.documents).max(analysis.documents);
    let own = parents.map_or(DOCUMENT, |parents| parents.bytes + ELEMENT);
    let child = spread.item_bytes + ELEMENT;
    let copies: u64 = lengths().map(|lists| lists.documents * lists.length.min(size)).sum();
    let of_parents = own * ratio(documents, 1) + child * ratio(copies, 1);
    let of_children = (spread.item_bytes + OWN) * ratio(analysis.elements, 1);
    let longer: u64 = lengths()
        .filter(|lists| lists.length > size)
        .map(|lists| lists.documents)
        .sum();
    SubsetSize {
        size,
        documents: documents + analysis.elements,
        bytes: whole(of_parents + of_children),
        index_bytes: whole(spread.stored.entry_bytes * ratio(documents + 3 * analysis.elements, 1)),
        parent_bytes: whole(of_parents / ratio(documents.max(1), 1)),
        largest_parent: whole(own + child * ratio(size.min(longest(spread)), 1)),
        second_reads: PAGES.map(|page| if page > size { longer } else { 0 }),
        parents: documents,
    }
}

pub(super) fn print(output: Output, sizes: &[SubsetSize]) -> io::Result<()> {
    output.heading("What subsets of each size would give, about")?;
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
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
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for line in table.to_string().lines() {
        debug_assert!(line.trim_end().chars().count() <= WIDTH, "{line}");
        output.text(line.trim_end())?;
    }
    output.text("The last columns: how many parents need a second read to show such a page.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::designs::tests::spread;

    #[test]
    fn a_page_that_is_longer_than_the_subset_takes_a_second_read_where_there_are_more_children() {
        let parents = Parents {
            documents: 10,
            bytes: 200.0,
        };
        let spread = spread(&[(2, 4), (10, 2), (30, 1)]);
        let of = |size| of_size(&spread, Some(&parents), size);
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
