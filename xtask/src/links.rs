//! The check of links: relative links and links into this repository must lead to a file and to a heading.
//!
//! It reads all Markdown that git tracks. In the book a link must also stay inside the book, because other files are not
//! part of its HTML.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::process::tracked_files;

/// The chapters of the book.
pub(crate) const BOOK: &str = "book/src";
/// How a link names a file of this repository from outside of it.
const REPOSITORY: [&str; 2] = [
    "https://github.com/mongo-patterns/mongo-patterns/blob/main/",
    "https://github.com/mongo-patterns/mongo-patterns/tree/main/",
];

/// The links and the headings of a page.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

/// Checks all pages.
pub(crate) fn check() -> Result<()> {
    let mut pages = BTreeMap::new();
    for file in tracked_files()?.into_iter().filter(|file| file.ends_with(".md")) {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
        pages.insert(PathBuf::from(file), read(&text));
    }
    let mut problems = Vec::new();
    let mut checked = 0;
    for (file, page) in &pages {
        for link in &page.links {
            checked += 1;
            if let Err(problem) = check_link(file, link, &pages) {
                problems.push(format!("{}: the link `{link}` {problem}", file.display()));
            }
        }
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    println!("{checked} links of {} pages", pages.len());
    Ok(())
}

fn check_link(file: &Path, link: &str, pages: &BTreeMap<PathBuf, Page>) -> Result<(), String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match REPOSITORY.iter().find_map(|start| path.strip_prefix(start)) {
        Some(path) => PathBuf::from(path),
        // Another site, or an item of rustdoc.
        None if path.contains("://") || path.starts_with("mailto:") || path.contains("::") => return Ok(()),
        None if path.is_empty() => file.to_owned(),
        None => {
            let target = normalize(&file.parent().unwrap_or(Path::new("")).join(path));
            if file.starts_with(BOOK) && !target.starts_with(BOOK) {
                return Err("leads out of the book; link to it on GitHub".to_owned());
            }
            target
        }
    };
    if !pages.contains_key(&target) && !target.exists() {
        return Err("leads to no file".to_owned());
    }
    let Some(page) = pages.get(&target).filter(|_| !anchor.is_empty()) else {
        return Ok(());
    };
    if page.anchors.contains(anchor) {
        Ok(())
    } else {
        Err("leads to no heading".to_owned())
    }
}

/// Removes `..` and `.` without following symbolic links: in the HTML a link is relative to the page that has it.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Reads the links and the headings of a page.
fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                if let Some(title) = heading.take() {
                    let anchor = anchor(&title);
                    let repeated = (1..).map(|number| format!("{anchor}-{number}"));
                    let free = std::iter::once(anchor.clone()).chain(repeated);
                    let mut free = free.filter(|anchor| !page.anchors.contains(anchor));
                    page.anchors.extend(free.next());
                }
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(title) = &mut heading {
                    title.push_str(&text);
                }
            }
            _ => {}
        }
    }
    page
}

/// Returns the anchor of a heading, as mdBook and GitHub make it.
fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_headings_of_a_page_are_read() {
        let page = read(
            "# A *b* `c()`\n\n[d](e.md#f) ![g](h.svg) <https://i>\n\n## Twice\n\n## Twice\n\n```text\n[no](link)\n```\n\n| j |\n|-|\n| [k](l.md) |\n",
        );
        assert_eq!(page.links, ["e.md#f", "h.svg", "https://i", "l.md"]);
        let anchors = ["a-b-c", "twice", "twice-1"].map(str::to_owned);
        assert_eq!(page.anchors, BTreeSet::from(anchors));
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let file = Path::new("book/src/a/b.md");
        let mut pages = BTreeMap::new();
        pages.insert(file.to_owned(), read("# Here\n"));
        let checked = |link: &str| check_link(file, link, &pages);
        for good in ["#here", "https://example.com/x#y", "crate::Error"] {
            assert_eq!(checked(good), Ok(()), "{good}");
        }
        assert_eq!(checked("#there"), Err("leads to no heading".to_owned()));
        assert_eq!(checked("c.md"), Err("leads to no file".to_owned()));
        let outside = checked("../../../README.md").unwrap_err();
        assert!(outside.starts_with("leads out of the book"), "{outside}");
        let gone = "https://github.com/mongo-patterns/mongo-patterns/blob/main/no/such.md";
        assert_eq!(checked(gone), Err("leads to no file".to_owned()));
    }
}
