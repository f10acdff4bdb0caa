//! The check of words: it keeps private vocabulary out of prose.
//!
//! `words.txt` lists words and phrases that MongoDB's manual, the driver or the Rust API guidelines call otherwise, each
//! with the word to use. The check reads comments, string literals and markdown, not code.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::process::tracked_files;

const LIST: &str = "xtask/words.txt";
/// Files with words that are not ours: recorded data, and the list itself.
const EXCLUDED: [&str; 3] = ["fuzz/corpus/", "Cargo.lock", LIST];
const ENDINGS: [&str; 3] = [".rs", ".md", ".txt"];

/// A phrase that must not occur, in words, and what to write instead.
struct Entry {
    phrase: Vec<String>,
    instead: String,
}

/// Checks all files that git tracks.
pub(crate) fn check() -> Result<()> {
    let list = fs::read_to_string(LIST).with_context(|| format!("reading {LIST}"))?;
    let entries: Vec<Entry> = list.lines().filter_map(parse).collect();
    let mut found = 0;
    for file in &tracked_files()? {
        let is_prose = ENDINGS.iter().any(|ending| file.ends_with(ending));
        if !is_prose || EXCLUDED.iter().any(|excluded| file.starts_with(excluded)) {
            continue;
        }
        let text = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
        for (number, phrase, instead) in findings(&text, file.ends_with(".rs"), &entries) {
            println!("{file}:{number}: `{phrase}`: write {instead}");
            found += 1;
        }
    }
    if found > 0 {
        bail!("{found} phrases of {LIST} are in the sources; use the words of MongoDB's manual and the driver");
    }
    println!("no phrase of {LIST} is in the sources");
    Ok(())
}

/// An entry is `phrase -> instead`. Lines that are empty or start with `#` are none.
fn parse(line: &str) -> Option<Entry> {
    let (phrase, instead) = line.split_once("->").filter(|_| !line.starts_with('#'))?;
    Some(Entry {
        phrase: words(phrase).map(|(word, _)| word).collect(),
        instead: instead.trim().to_owned(),
    })
}

/// Returns each finding as its line number, its phrase and what to write instead.
fn findings<'a>(text: &str, is_rust: bool, entries: &'a [Entry]) -> Vec<(usize, String, &'a str)> {
    let prose = if is_rust { prose(text) } else { text.to_owned() };
    let words: Vec<(String, usize)> = words(&prose).collect();
    let mut found = Vec::new();
    for (at, (_, line)) in words.iter().enumerate() {
        for entry in entries {
            let candidate = words[at..].iter().map(|(word, _)| word);
            let is_phrase = candidate.take(entry.phrase.len()).eq(&entry.phrase);
            if is_phrase {
                found.push((*line, entry.phrase.join(" "), entry.instead.as_str()));
            }
        }
    }
    found
}

/// Returns the words of a text, in lower case, with their line numbers.
fn words(text: &str) -> impl Iterator<Item = (String, usize)> {
    text.lines().zip(1..).flat_map(|(line, number)| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '\'');
        words
            .filter(|word| !word.is_empty())
            .map(move |word| (word.to_lowercase(), number))
    })
}

/// Returns the comments, the string literals and the names of test functions of Rust code, on their lines.
fn prose(code: &str) -> String {
    let mut prose = String::new();
    let mut in_string = false;
    for line in code.lines() {
        let mut rest = line;
        if !in_string && let Some(name) = line.trim_start().trim_start_matches("async ").strip_prefix("fn ") {
            let name = name.split('(').next().unwrap_or_default();
            // Only the long names of tests are sentences.
            if name.matches('_').count() > 2 {
                prose.push_str(&name.replace('_', " "));
                prose.push(' ');
            }
        }
        while !rest.is_empty() {
            if in_string {
                let end = closing_quote(rest);
                prose.push_str(&rest[..end.unwrap_or(rest.len())]);
                prose.push(' ');
                in_string = end.is_none();
                rest = end.map_or("", |end| &rest[end + 1..]);
            } else {
                let (comment, string) = (rest.find("//"), opening_quote(rest));
                match (comment, string) {
                    (Some(comment), string) if string.is_none_or(|string| comment < string) => {
                        prose.push_str(rest[comment..].trim_start_matches('/'));
                        rest = "";
                    }
                    (_, Some(string)) => {
                        in_string = true;
                        rest = &rest[string + 1..];
                    }
                    _ => rest = "",
                }
            }
        }
        prose.push('\n');
    }
    prose
}

/// Returns the position of the next quote that is not a character literal.
fn opening_quote(text: &str) -> Option<usize> {
    let is_literal = |at: usize| text[..at].ends_with('\'') || text[..at].ends_with("'\\");
    text.match_indices('"').map(|(at, _)| at).find(|at| !is_literal(*at))
}

fn closing_quote(text: &str) -> Option<usize> {
    let escapes = |at: usize| text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
    text.match_indices('"')
        .map(|(at, _)| at)
        .find(|at| escapes(*at) % 2 == 0)
}

#[cfg(test)]
mod tests {
    use super::{findings, parse};

    #[test]
    fn a_phrase_is_found_in_prose_and_not_in_code() {
        let list = ["zork -> repair", "zorks on -> continues", "# zorked"];
        let entries: Vec<_> = list.into_iter().filter_map(parse).collect();
        let code = "fn zork() {} // Zork it, and it zorks\n// on here.\nlet text = \"zork \\\" zork\";\n\
                    let zorked = '\"';\nfn a_test_that_zorks_on_well() {}\n";
        let found = findings(code, true, &entries).into_iter();
        let found: Vec<_> = found.map(|(line, phrase, _)| (line, phrase)).collect();
        let expected = [(1, "zork"), (1, "zorks on"), (3, "zork"), (3, "zork"), (5, "zorks on")];
        assert_eq!(found, expected.map(|(line, phrase)| (line, phrase.to_owned())));
        assert_eq!(findings("it is zorked\n", false, &entries).len(), 0);
        assert_eq!(findings("`zork` it\n", false, &entries).len(), 1);
    }
}
