//! The check of sentences: long ones, and pronouns whose noun a reader has to look for.
//!
//! It reads the paragraphs and lists of Markdown, and of documentation comments. Tables, headings and code do not count.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use pulldown_cmark::{Event, Options as Markdown, Parser, Tag, TagEnd};

use crate::process::tracked_files;

/// The most words of a sentence.
const LONGEST: usize = 30;
/// The most sentences that are longer, and the most phrases of [`PRONOUNS`]. Lower both with every page that is rewritten.
const BOUNDS: [usize; 2] = [7, 141];
const PRONOUNS: [&str; 8] = [
    "that of",
    "those of",
    "one of them",
    "the other one",
    "of which",
    "the same holds",
    "of these",
    "another one",
];
/// Generated pages, and pages of one release.
const EXCLUDED: [&str; 5] = [
    "CHANGELOG.md",
    "book/src/benchmarks/",
    "book/src/reference/calls.md",
    "crates/protocols/",
    "docs/",
];

#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Prints the worst sentences of this file.
    file: Option<PathBuf>,
}

/// Counts sentences, or prints those of a file.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(file) = &options.file {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let mut sentences = sentences(&text, file.extension().is_some_and(|ending| ending == "rs"));
        sentences.sort_by_key(|sentence| std::cmp::Reverse(weight(sentence)));
        for sentence in sentences.iter().filter(|sentence| weight(sentence) > LONGEST).take(20) {
            println!("{} words: {sentence}", sentence.split_whitespace().count());
        }
        return Ok(());
    }
    let (mut long, mut pronouns) = (0, 0);
    for file in &tracked_files()? {
        let is_rust = file.starts_with("crates/") && file.ends_with(".rs") && file.contains("/src/");
        if !(is_rust || file.ends_with(".md")) || EXCLUDED.iter().any(|excluded| file.starts_with(excluded)) {
            continue;
        }
        let text = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
        for sentence in sentences(&text, is_rust) {
            long += usize::from(sentence.split_whitespace().count() > LONGEST);
            pronouns += pronouns_in(&sentence);
        }
    }
    println!("{long} sentences of more than {LONGEST} words, {pronouns} pronouns without a noun");
    if [long, pronouns].iter().zip(BOUNDS).any(|(found, bound)| *found > bound) {
        bail!("the bounds are {BOUNDS:?}: rewrite the new ones, see `cargo xtask sentences FILE`");
    }
    Ok(())
}

/// A pronoun counts as ten words.
fn weight(sentence: &str) -> usize {
    sentence.split_whitespace().count() + 10 * pronouns_in(sentence)
}

fn pronouns_in(sentence: &str) -> usize {
    let sentence = sentence.to_lowercase();
    PRONOUNS.iter().map(|phrase| sentence.matches(phrase).count()).sum()
}

fn sentences(text: &str, is_rust: bool) -> Vec<String> {
    let text = if is_rust { documentation(text) } else { text.to_owned() };
    let mut paragraphs = vec![String::new()];
    let mut skipped = 0;
    for event in Parser::new_ext(&text, Markdown::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Table(_) | Tag::CodeBlock(_) | Tag::Heading { .. }) => skipped += 1,
            Event::End(TagEnd::Table | TagEnd::CodeBlock | TagEnd::Heading(_)) => skipped -= 1,
            Event::Start(Tag::Paragraph | Tag::Item) => paragraphs.push(String::new()),
            Event::Text(text) | Event::Code(text) if skipped == 0 => {
                paragraphs.last_mut().expect("one").push_str(&text);
            }
            Event::SoftBreak | Event::HardBreak => paragraphs.last_mut().expect("one").push(' '),
            _ => {}
        }
    }
    let ends = |text: &str| {
        text.split_inclusive(['.', '?', ':'])
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut found: Vec<String> = Vec::new();
    for paragraph in paragraphs {
        let mut sentence = String::new();
        for part in ends(&paragraph) {
            // A full stop within a word, such as that of a version, ends no sentence.
            let begins = part.starts_with(' ') || sentence.is_empty();
            if begins && !sentence.trim().is_empty() {
                found.push(sentence.trim().to_owned());
                sentence.clear();
            }
            sentence.push_str(&part);
        }
        found.push(sentence.trim().to_owned());
    }
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// Returns the documentation comments of Rust code, as Markdown.
fn documentation(code: &str) -> String {
    let comment = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some(text.strip_prefix(' ').unwrap_or(text).to_owned())
    };
    let lines = code.lines().map(|line| comment(line).unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_those_of_prose() {
        let code = "/// Reads 1.5 of it. Then\n/// that of another one.\n///\n/// ```text\n/// a b. c d.\n/// ```\nfn f() {}\n/// | a. | b |\n/// |---|---|\n";
        let found = sentences(code, true);
        assert_eq!(found, ["Reads 1.5 of it.", "Then that of another one."]);
        assert_eq!(pronouns_in(&found[1]), 2);
        let page = "# A title. Two\n\nFirst: second?\n\n| a. b | c |\n|---|---|\n| d. e | f |\n\n- an item\n- two";
        assert_eq!(sentences(page, false), ["First:", "second?", "an item", "two"]);
    }
}
