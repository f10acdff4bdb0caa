//! The checks of the book: its summary, its includes, its code, its links, and that mdBook builds it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::links::{self, BOOK};
use crate::process::{cargo, run as run_process, tracked_files};

/// The file whose documentation tests compile the code of the chapters.
const CODE: &str = "book/lib.rs";
const BUILDER: &str = "book/builder/Cargo.toml";
/// Where the HTML is written.
const HTML: &str = "target/book";

/// Checks the book, and writes its HTML.
pub(crate) fn check() -> Result<()> {
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
        for include in includes(&text) {
            if let Err(problem) = check_include(chapter, include) {
                problems.push(format!("{BOOK}/{chapter}: the include `{include}` {problem}"));
            }
        }
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    println!("{} chapters", chapters.len());
    links::check()?;
    build()
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

/// Returns what the page includes, such as `../file.rs:anchor`.
fn includes(text: &str) -> impl Iterator<Item = &str> {
    let rests = text.split("{{#include ").skip(1);
    rests.filter_map(|rest| Some(rest.split_once("}}")?.0.trim()))
}

fn check_include(chapter: &str, include: &str) -> Result<(), String> {
    let (path, anchor) = include.split_once(':').unwrap_or((include, ""));
    let folder = Path::new(BOOK).join(chapter);
    let path = folder.parent().unwrap_or(Path::new("")).join(path);
    let text = fs::read_to_string(path).map_err(|_| "names no file")?;
    let starts = |line: &str| {
        line.trim_end_matches("-->")
            .trim_end()
            .ends_with(&format!("ANCHOR: {anchor}"))
    };
    if anchor.is_empty() || text.lines().any(starts) {
        Ok(())
    } else {
        Err("names no anchor of the file".to_owned())
    }
}

/// Writes the HTML with the library of mdBook, which a workspace of its own compiles.
fn build() -> Result<()> {
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
    fn compiled_code_and_includes_are_found() {
        assert!(has_rust("a\n```rust,no_run\n```\n") && has_rust("```rust\n"));
        assert!(!has_rust("```rust,ignore\n```\n```text\n```\n"));
        let text = "{{#include ../a.rs:b}} and {{#include c.md}}";
        assert_eq!(includes(text).collect::<Vec<_>>(), ["../a.rs:b", "c.md"]);
    }
}
