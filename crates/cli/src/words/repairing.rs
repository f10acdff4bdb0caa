//! The table of the chapter "Repairing": all findings with what to do, from the texts that `verify` prints.
//!
//! With the environment variable `MONGO_PATTERNS_BOOK`, the test writes it.

use std::fs;
use std::path::Path;

use super::in_commands;

const PAGE: &str = "book/src/operations/repairing.md";
const BEGIN: &str = "<!-- findings -->\n";
const END: &str = "<!-- end of findings -->";
/// The patterns with the files of their findings.
const PATTERNS: [(&str, &str); 8] = [
    ("bucket", "bucket/src/repair/finding.rs"),
    ("outlier", "outlier/src/repair/finding.rs"),
    ("subset", "subset/src/repair/finding.rs"),
    ("embedded", "embedded/src/repair/finding.rs"),
    ("history", "history/src/repair/finding.rs"),
    ("reference", "reference/src/repair/finding.rs"),
    ("archive", "archive/src/finding.rs"),
    ("schema", "schema/src/finding.rs"),
];
/// The findings of all patterns.
const OF_ALL: [(&str, &str); 3] = [
    ("IndexMissing", "run `indexes --create` of the pattern"),
    ("MigrationUnfinished", "run the command that the finding names"),
    (
        "UnsuitableShardKey",
        "shard the collection by a key that the finding names",
    ),
];

/// Returns the findings of a file: whether they are those of a trash, their names, and their texts.
fn findings(source: &str) -> Vec<(bool, &str, &str)> {
    let mut found = Vec::new();
    for problems in source.split("pub enum ").skip(1) {
        let (of_trash, mut name) = (problems.starts_with("Trash"), "");
        let lines = problems.lines().map(str::trim_start);
        for line in lines.filter(|line| !line.starts_with("//") && !problems.starts_with("Unrepaired")) {
            let end = line.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(line.len());
            if line.starts_with(|c: char| c.is_ascii_uppercase()) && line[end..].starts_with(' ') {
                name = &line[..end];
            }
            match line.split('"').nth(1) {
                Some(text) if line.ends_with("\",") => found.push((of_trash, name, text)),
                _ => {}
            }
        }
    }
    found
}

/// Returns the rows: those with one remedy together.
fn table(folder: &Path) -> String {
    let mut rows: Vec<(&str, Vec<String>, String)> = Vec::new();
    let mut add =
        |pattern, name: &str, remedy: String| match rows.iter_mut().find(|row| row.0 == pattern && row.2 == remedy) {
            Some(row) => row.1.push(format!("`{name}`")),
            None => rows.push((pattern, vec![format!("`{name}`")], remedy)),
        };
    for (name, remedy) in OF_ALL {
        add("all", name, remedy.to_owned());
    }
    for (pattern, file) in PATTERNS {
        let source = fs::read_to_string(folder.join("crates").join(file)).unwrap();
        let found = findings(&source);
        assert!(found.len() > 3, "{file}: {found:?}");
        for (of_trash, name, text) in found {
            let pattern = if of_trash { "trash" } else { pattern };
            let text = in_commands(Some(pattern), text);
            let (_, remedy) = text
                .split_once(": ")
                .unwrap_or_else(|| panic!("{name} has no remedy: {text}"));
            add(pattern, name, remedy.to_owned());
        }
    }
    let rows = rows
        .iter()
        .map(|(pattern, names, remedy)| format!("| {pattern} | {} | {remedy} |\n", names.join(", ")));
    let head = "| pattern | finding | what to do |\n|---|---|---|\n".to_owned();
    format!("\n{head}{}\n", rows.collect::<String>())
}

#[test]
fn the_chapter_has_every_finding_with_what_to_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let stored = fs::read_to_string(folder.join(PAGE)).unwrap();
    let (before, rest) = stored.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let table = table(&folder);
    if std::env::var_os("MONGO_PATTERNS_BOOK").is_some() {
        fs::write(folder.join(PAGE), format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert!(
        found == table,
        "{PAGE} differs: run this test with MONGO_PATTERNS_BOOK=1"
    );
}
