//! The checks of the book: its summary, its copies of other files, its code, its links, and that mdBook builds it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::calls;
use crate::links::{self, BOOK};
use crate::process::{cargo, run as run_process, tracked_files};

/// The file whose documentation tests compile the code of the chapters.
const CODE: &str = "book/lib.rs";
const BUILDER: &str = "book/builder/Cargo.toml";
/// Where the HTML is written.
const HTML: &str = "target/book";
/// Begins the copy of a file in a page: `<!-- copy of examples/a.rs:anchor -->`. A copy can be read on GitHub too, where an
/// include of mdBook is not expanded.
const COPY: &str = "<!-- copy of ";
const END_OF_COPY: &str = "<!-- end of copy -->";

/// What is done about old copies.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Updates the parts of chapters that are copies of programs and other files, and the page of all calls, and does not report them.
    #[arg(long)]
    write: bool,
}

/// Checks the book.
pub(crate) fn check(options: &Options) -> Result<()> {
    let mut problems = Vec::new();
    let summary = fs::read_to_string(Path::new(BOOK).join("SUMMARY.md")).context("reading the summary of the book")?;
    let code = fs::read_to_string(CODE).with_context(|| format!("reading {CODE}"))?;
    let chapters: BTreeSet<String> = chapters()?;
    for chapter in &chapters {
        let text = fs::read_to_string(Path::new(BOOK).join(chapter)).with_context(|| format!("reading {chapter}"))?;
        if !summary.contains(&format!("]({chapter})")) {
            problems.push(format!("{BOOK}/SUMMARY.md has no link to {chapter}"));
        }
        if has_rust(&text) && !code.contains(&format!("\"src/{chapter}\"")) {
            problems.push(format!(
                "{CODE} does not include {chapter}, whose code would not be compiled"
            ));
        }
        if text.contains("{{#") {
            problems.push(format!(
                "{BOOK}/{chapter} has a directive of mdBook, which GitHub shows as text: use `{COPY}FILE -->` and `{END_OF_COPY}`"
            ));
        }
        let current = with_current_copies(&text).with_context(|| format!("{BOOK}/{chapter}"))?;
        if current != text && options.write {
            fs::write(Path::new(BOOK).join(chapter), current).with_context(|| format!("writing {chapter}"))?;
        } else if current != text {
            problems.push(format!(
                "{BOOK}/{chapter} has a copy that differs from its source: run `cargo xtask book --write`"
            ));
        }
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    println!("{} chapters", chapters.len());
    calls::check(options.write)?;
    links::check()
}

/// Returns the paths of the chapters in the book.
fn chapters() -> Result<BTreeSet<String>> {
    let files = tracked_files()?;
    let chapters = files
        .iter()
        .filter_map(|file| file.strip_prefix(BOOK)?.strip_prefix('/'));
    let chapters = chapters.filter(|file| file.ends_with(".md") && *file != "SUMMARY.md");
    Ok(chapters.map(str::to_owned).collect())
}

/// Returns whether rustdoc compiles code of the page.
fn has_rust(text: &str) -> bool {
    let mut fences = text.lines().filter_map(|line| line.strip_prefix("```rust"));
    fences.any(|rest| !rest.contains("ignore"))
}

/// Returns the page with each copy as its source is now.
fn with_current_copies(page: &str) -> Result<String> {
    let mut current = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        current.push_str(line);
        current.push('\n');
        let Some(name) = line.strip_prefix(COPY).and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let copied: Vec<&str> = lines.by_ref().take_while(|line| *line != END_OF_COPY).collect();
        let source = source(name)?;
        let copy = match copied.first() {
            Some(fence) if fence.starts_with("```") => format!("{fence}\n{source}\n```\n"),
            _ => format!("{source}\n\n"),
        };
        current.push_str(&copy);
        current.push_str(END_OF_COPY);
        current.push('\n');
    }
    Ok(current)
}

/// Returns the text of a file, or of the part between its comments `ANCHOR: name` and `ANCHOR_END: name`.
fn source(name: &str) -> Result<String> {
    let (path, anchor) = name.split_once(':').unwrap_or((name, ""));
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}, of which a page has a copy"))?;
    if anchor.is_empty() {
        return Ok(text.trim_end().to_owned());
    }
    part(&text, anchor).with_context(|| format!("{path} has no part `{anchor}`, of which a page has a copy"))
}

fn part(text: &str, anchor: &str) -> Option<String> {
    let (begin, end) = (format!("ANCHOR: {anchor}"), format!("ANCHOR_END: {anchor}"));
    let lines: Vec<&str> = text.lines().collect();
    let at = |mark: &str| lines.iter().position(|line| comment(line).ends_with(mark));
    let part = lines.get(at(&begin)? + 1..at(&end)?)?;
    Some(part.join("\n").trim().to_owned())
}

/// Returns the line without the end of a comment of HTML.
fn comment(line: &str) -> &str {
    line.trim_end().trim_end_matches("-->").trim_end()
}

/// Writes the HTML with the library of mdBook, which a workspace of its own compiles.
pub(crate) fn build() -> Result<()> {
    let builder = ["run", "--quiet", "--locked", "--manifest-path", BUILDER];
    let arguments = ["--target-dir", "target/book-builder", "--", "book", HTML];
    run_process(cargo(builder).args(arguments))?;
    let index = Path::new(HTML).join("index.html");
    if !index.exists() {
        bail!("mdBook did not write {}", index.display());
    }
    println!("the book is {}", index.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_code_is_found() {
        assert!(has_rust("a\n```rust,no_run\n```\n") && has_rust("```rust\n"));
        assert!(!has_rust("```rust,ignore\n```\n```text\n```\n"));
    }

    #[test]
    fn a_part_of_a_file_is_found() {
        let code = "a\n// ANCHOR: b\nfn c() {}\n\n// ANCHOR_END: b\nd\n";
        assert_eq!(part(code, "b").as_deref(), Some("fn c() {}"));
        assert_eq!(part(code, "c"), None);
        let page = "<!-- ANCHOR: e -->\n| f |\n<!-- ANCHOR_END: e -->\n";
        assert_eq!(part(page, "e").as_deref(), Some("| f |"));
    }

    #[test]
    fn copies_are_updated() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "new\n").unwrap();
        let name = file.path().display();
        let page = |text: &str| {
            format!(
                "{COPY}{name} -->\n```rust\n{text}\n```\n{END_OF_COPY}\nbetween\n{COPY}{name} -->\n{text}\n\n{END_OF_COPY}\n"
            )
        };
        assert_eq!(with_current_copies(&page("old")).unwrap(), page("new"));
        assert_eq!(with_current_copies(&page("new")).unwrap(), page("new"));
        assert!(with_current_copies(&format!("{COPY}no/such/file -->\n{END_OF_COPY}\n")).is_err());
    }
}
