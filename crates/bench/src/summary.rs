//! The calls of this project against what a user would pick instead, in one table.

use anyhow::{Context, Result};

use crate::measure::Sample;
use crate::report::{Section, Table, spread};

/// A call, and an alternative, in the comparison of a section.
struct Row {
    section: &'static str,
    comparison: usize,
    what: &'static str,
    ours: &'static str,
    instead: &'static str,
}

const fn row(
    (section, comparison): (&'static str, usize),
    what: &'static str,
    ours: &'static str,
    instead: &'static str,
) -> Row {
    Row {
        section,
        comparison,
        what,
        ours,
        instead,
    }
}

const ROWS: [Row; 15] = [
    row(
        ("append", 0),
        "append, one writer",
        "append",
        "insert_one, one document per item",
    ),
    row(("append", 0), "append, one writer", "append", "insert_one, time series"),
    row(
        ("append", 1),
        "append, 64 writers",
        "append",
        "insert_one, one document per item",
    ),
    row(("append", 1), "append, 64 writers", "append", "insert_one, time series"),
    row(
        ("pages", 0),
        "a page",
        "pages, by token, page 2",
        "flat, by date, page 2",
    ),
    row(
        ("pages", 0),
        "a page",
        "pages, by token, page 2",
        "flat, find and skip, page 2",
    ),
    row(("push", 0), "push to a short list", "push", "$push, one array"),
    row(("push", 1), "push to a long list", "push", "$push, one array"),
    row(
        ("reads", 0),
        "all documents",
        "find of all, ours",
        "find of all, unbounded arrays",
    ),
    row(
        ("reads", 0),
        "one document",
        "get of each, ours",
        "find_one of each, unbounded arrays",
    ),
    row(
        ("product-page", 0),
        "a product with its first reviews",
        "get",
        "all embedded",
    ),
    row(
        ("product-page", 0),
        "a product with its first reviews",
        "get",
        "all embedded, $slice",
    ),
    row(
        ("product-page", 0),
        "a product with its first reviews",
        "get",
        "two finds, full index",
    ),
    row(("insert", 0), "insert a review", "insert", "insert and $push by hand"),
    row(
        ("rebuild", 0),
        "rebuild all subsets",
        "refresh_all",
        "$lookup and $merge",
    ),
];

const TEXT: &str = "\
What a user would pick instead, by the rate of the call: above 1, the call of this project is faster. The sections \
below and on the other pages describe each row.";

/// Returns the table as Markdown.
pub(crate) fn summary(sections: &[&Section]) -> Result<String> {
    let columns = ["", "call", "instead", "rate ratio", "server CPU ratio"].map(str::to_owned);
    let mut rows = Vec::new();
    for row in &ROWS {
        let section = sections.iter().find(|section| section.name == row.section);
        let comparison = section.and_then(|section| section.comparisons.get(row.comparison));
        let missing = || {
            format!(
                "the summary names `{}` against `{}` in {}",
                row.ours, row.instead, row.section
            )
        };
        let comparison = comparison.with_context(missing)?;
        let ours = comparison.entries.iter().find(|entry| entry.name == row.ours);
        let ours = ours.with_context(missing)?;
        comparison
            .entries
            .iter()
            .find(|entry| entry.name == row.instead)
            .with_context(missing)?;
        let rates = comparison.ratios(ours, row.instead, |sample| Some(sample.rate()));
        let servers = comparison.ratios(ours, row.instead, Sample::server_us);
        rows.push(vec![
            row.what.to_owned(),
            row.ours.to_owned(),
            row.instead.to_owned(),
            spread(rates),
            spread(servers),
        ]);
    }
    let table = Table {
        title: String::new(),
        columns: columns.to_vec(),
        rows,
    };
    Ok(format!("\n## Summary\n\n{TEXT}\n\n{}", table.markdown()))
}
