//! The size of each crate, counted by one set of rules, and its copy in `ARCHITECTURE.md`.
//!
//! - A line of code is neither blank nor a comment. Docs are the lines of `///` and `//!`.
//! - Unit tests are the modules below `#[cfg(test)]`, and files named `tests.rs`. Their lines count nowhere else.
//! - Public types and functions are what `pub` makes public. The lint `unreachable_pub` refuses others.
//!
//! Folders of tests have no unit tests: all of their code counts as code.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process::tracked_files;

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- cargo xtask size -->\n";
const END: &str = "<!-- end of cargo xtask size -->\n";
/// The crates of the library, whose sum is a row, each with its bound: the most lines of code. A change that exceeds a bound
/// says what leaves for it.
const LIBRARY: [(&str, usize); 12] = [
    ("crates/core/src", 12_755),
    ("crates/bucket/src", 8_700),
    ("crates/outlier/src", 3_790),
    ("crates/subset/src", 4_430),
    ("crates/embedded/src", 1_710),
    ("crates/history/src", 4_100),
    ("crates/intervals/src", 1_850),
    ("crates/reference/src", 5_050),
    ("crates/schema/src", 1_860),
    ("crates/archive/src", 2_460),
    ("crates/archive-files/src", 950),
    ("crates/counters/src", 600),
];
const OTHERS: [(&str, usize); 11] = [
    ("crates/derive/src", 200),
    ("crates/mongo-patterns/src", 200),
    ("crates/mongo-patterns/examples", 2_800),
    ("crates/cli/src", 10_160),
    ("crates/cli/tests", 5_560),
    ("crates/testkit/src", 2_100),
    ("crates/protocols/src", 7_645),
    ("crates/bench/src", 6_360),
    ("examples", 3_800),
    ("tests", 68_715),
    ("xtask", 3_310),
];
/// What a public type begins with.
const TYPES: [&str; 5] = ["pub struct ", "pub enum ", "pub trait ", "pub type ", "pub union "];
const FUNCTIONS: [&str; 3] = ["pub fn ", "pub async fn ", "pub const fn "];

/// What is done about an old copy.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Updates the copy in `ARCHITECTURE.md`.
    #[arg(long)]
    write: bool,
}

/// What a crate has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    code: usize,
    docs: usize,
    unit_tests: usize,
    files: usize,
    types: usize,
    functions: usize,
}

/// Prints the sizes, compares or updates their copy, and refuses a size above its bound.
pub(crate) fn run(options: &Options) -> Result<()> {
    let (table, above) = table()?;
    print!("{table}");
    if !above.is_empty() {
        bail!("{}", above.join("\n"));
    }
    let page = fs::read_to_string(PAGE).with_context(|| format!("reading {PAGE}"))?;
    let current = with_table(&page, &table)?;
    if options.write {
        return fs::write(PAGE, current).with_context(|| format!("writing {PAGE}"));
    }
    if !are_near(&figures(&page), &figures(&current)) {
        bail!("{PAGE} has other sizes: run `cargo xtask size --write`");
    }
    Ok(())
}

/// Returns the figures of the rows of a page, with the name of each row.
fn figures(page: &str) -> Vec<(&str, Vec<usize>)> {
    let (_, table) = page.split_once(BEGIN).unwrap_or_default();
    let (table, _) = table.split_once(END).unwrap_or_default();
    table
        .lines()
        .map(|row| {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            (
                cells.next().unwrap_or_default(),
                cells.filter_map(|cell| cell.parse().ok()).collect(),
            )
        })
        .collect()
}

/// Returns whether the rows are the same and each figure differs by a twentieth at most: 200 lines or 5 files, types
/// or functions in a small crate. A small change need not update the page.
fn are_near(old: &[(&str, Vec<usize>)], new: &[(&str, Vec<usize>)]) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|((old_name, old), (new_name, new))| {
            old_name == new_name
                && old.len() == new.len()
                && old.iter().zip(new).enumerate().all(|(column, (old, new))| {
                    let least = if column < 4 { 200 } else { 5 };
                    old.abs_diff(*new) <= least.max(new / 20)
                })
        })
}

/// Returns the sizes as a table, whose lines are rounded to hundreds, and those above their bound.
fn table() -> Result<(String, Vec<String>)> {
    let files = tracked_files()?;
    let mut table = String::from(
        "| | code | bound | docs | unit tests | files | public types | public functions |\n|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let (mut library, mut bounds, mut above) = (Size::default(), 0, Vec::new());
    let mut add = |table: &mut String, folder, bound| -> Result<Size> {
        let size = size_of(folder, &files)?;
        table.push_str(&size.row(folder, bound));
        if size.code > bound {
            let code = size.code;
            above.push(format!(
                "{folder}: {code} lines of code, more than its bound of {bound} in xtask/src/size.rs"
            ));
        }
        Ok(size)
    };
    for (folder, bound) in LIBRARY {
        library.add(add(&mut table, folder, bound)?);
        bounds += bound;
    }
    table.push_str(&library.row("core and the patterns", bounds));
    for (folder, bound) in OTHERS {
        add(&mut table, folder, bound)?;
    }
    Ok((table, above))
}

fn size_of(folder: &str, files: &[String]) -> Result<Size> {
    let mut size = Size::default();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        if Path::new(file).starts_with(folder) {
            let text = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
            let is_test = file.ends_with("/tests.rs") || file.contains("/src/") && file.contains("/tests/");
            size.add(count(&text, is_test));
        }
    }
    Ok(size)
}

fn count(text: &str, is_test: bool) -> Size {
    let mut size = Size {
        files: 1,
        ..Size::default()
    };
    // A module of unit tests ends at the first line that closes a block of its indentation, which is none.
    let mut in_tests = is_test;
    let mut after_attribute = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if after_attribute && trimmed.starts_with("mod ") && trimmed.ends_with('{') {
            in_tests = true;
            size.code = size.code.saturating_sub(1);
            size.unit_tests += 1;
        }
        after_attribute = line == "#[cfg(test)]";
        if trimmed.starts_with("///") || trimmed.starts_with("//!") {
            size.docs += usize::from(!in_tests);
        } else if trimmed.is_empty() || trimmed.starts_with("//") {
            continue;
        } else if in_tests {
            size.unit_tests += 1;
            in_tests = is_test || line != "}";
        } else {
            size.code += 1;
            size.types += usize::from(TYPES.iter().any(|start| trimmed.starts_with(start)));
            size.functions += usize::from(FUNCTIONS.iter().any(|start| trimmed.starts_with(start)));
        }
    }
    size
}

impl Size {
    fn add(&mut self, other: Self) {
        self.code += other.code;
        self.docs += other.docs;
        self.unit_tests += other.unit_tests;
        self.files += other.files;
        self.types += other.types;
        self.functions += other.functions;
    }

    fn row(self, name: &str, bound: usize) -> String {
        let [code, docs, unit_tests] = [self.code, self.docs, self.unit_tests].map(|lines| lines.div_ceil(100) * 100);
        let Self {
            files,
            types,
            functions,
            ..
        } = self;
        format!("| {name} | {code} | {bound} | {docs} | {unit_tests} | {files} | {types} | {functions} |\n")
    }
}

fn with_table(page: &str, table: &str) -> Result<String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        bail!(
            "{PAGE} has no place for the sizes, between `{}` and `{}`",
            BEGIN.trim(),
            END.trim()
        );
    };
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_counts_once() {
        let text = "//! Docs.\n\nuse a;\n\n/// Docs.\npub struct S {\n    // Why.\n    f: u8,\n}\n\n#[cfg(test)]\nmod tests {\n    /// No docs.\n    fn f() {\n    }\n}\n\npub(crate) fn g() {}\n";
        let expected = Size {
            code: 5,
            docs: 2,
            unit_tests: 5,
            files: 1,
            types: 1,
            functions: 0,
        };
        assert_eq!(count(text, false), expected);
        assert_eq!(count("pub fn f() {}\n", true).unit_tests, 1);
    }

    #[test]
    fn a_page_is_current_within_a_twentieth() {
        let page = |row: &str| format!("Text.\n{BEGIN}| | code |\n|---|---:|\n{row}\n{END}More.\n");
        let near = |old: &str, new: &str| are_near(&figures(&page(old)), &figures(&page(new)));
        assert!(near("| a | 8000 | 0 | 0 | 0 | 9 |", "| a | 8400 | 0 | 0 | 0 | 9 |"));
        assert!(near("| a | 100 | 0 | 0 | 0 | 9 |", "| a | 300 | 0 | 0 | 0 | 14 |"));
        assert!(!near("| a | 8000 | 0 | 0 | 0 | 9 |", "| a | 8500 | 0 | 0 | 0 | 9 |"));
        assert!(!near("| a | 100 | 0 | 0 | 0 | 9 |", "| a | 100 | 0 | 0 | 0 | 15 |"));
        assert!(!near("| a | 100 |", "| b | 100 |"));
        assert!(!near("| a | 100 |", "| a |"));
    }

    #[test]
    fn the_table_is_between_its_marks() {
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(with_table(&page, "new\n").unwrap(), format!("a\n{BEGIN}new\n{END}b\n"));
        assert!(with_table("a\n", "new\n").is_err());
    }
}
