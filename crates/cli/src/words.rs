//! Texts of the library, with commands and options in place of the methods of Rust.

use std::fmt::Display;

use mongo_patterns_core::Error;

/// What the texts of the library name, and what they name here. A longer one stands before a shorter one that it contains.
/// `PATTERN` is that of the repository.
const WORDS: [(&str, &str); 67] = [
    // The driver's error is printed with the text.
    ("see as_driver_error() for the reason, then ", ""),
    (": see as_driver_error() for the reason", ""),
    ("; see as_driver_error() for the rule", ""),
    ("; as_driver_error() has the reason", ""),
    ("; see as_driver_error()", ""),
    (": see as_driver_error()", ""),
    // And so is the document.
    ("see document_id() for the source, ", ""),
    ("see document_id(), and ", ""),
    ("see document_id(), then ", ""),
    ("see document_id(), ", ""),
    // Commands.
    (
        "ensure_indexes().replace_settings()",
        "`PATTERN indexes --create --replace-settings`",
    ),
    ("ensure_indexes()", "`PATTERN indexes --create`"),
    ("ensure_sharded()", "`PATTERN shard`"),
    ("ensure_index()", "`PATTERN indexes --create`"),
    ("verify()", "`PATTERN verify`"),
    ("repair with delete_orphans()", "run `outlier repair --delete-orphans`"),
    (
        "delete them with delete_orphans()",
        "delete them by `outlier repair --delete-orphans`",
    ),
    (
        "repair() with on_missing(..) to keep the copy or clear the reference",
        "`reference repair --on-missing keep`, or `reference repair --on-missing clear` to clear the reference",
    ),
    (
        "set on_missing(..)",
        "run `reference repair --on-missing keep` or `reference repair --on-missing clear`",
    ),
    ("repair()", "`PATTERN repair`"),
    (": repair it", ": run `PATTERN repair`"),
    (": repair or refresh the parent", ": run `PATTERN repair`"),
    (", and repair it", ", and run `PATTERN repair`"),
    ("refresh_copies() for the sources", "`reference repair`"),
    ("refresh_copies()", "`reference repair`"),
    (
        "refresh(..).discard_embedded()",
        "`subset migrate --from collection --discard-embedded`",
    ),
    ("refresh(..) again", "`subset repair`"),
    ("refresh(..)", "`subset migrate --from collection --discard-embedded`"),
    ("migrate_from_embedded()", "`subset migrate --from embedded`"),
    ("migrate_from_references()", "`reference migrate`"),
    ("migrate_existing()", "`PATTERN migrate`"),
    (" with delete_parent(..)", ""),
    ("by one insert_many(..)", "by one call of a program"),
    ("as_of(..) can", "`history show ID --as-of TIME` can"),
    (
        "with keep_last(..)",
        "by `history prune ID --keep-last N`, where N is the number of revisions that stay",
    ),
    ("and append them with append_stream()", "and append them by a program"),
    (
        "with items(), and insert them through the client",
        "and insert them by a program",
    ),
    // Options.
    ("call allow_non_empty_target()", "pass --allow-non-empty-target"),
    (
        "call sum(..), min(..), max(..), count_by(..) or first_and_last() on the builder",
        "pass --sum, --min, --max, --count-by or --first-and-last",
    ),
    ("call first_and_last() on the builder", "pass --first-and-last"),
    ("call copied_fields(..)", "pass --copy"),
    ("call sort(..) on it, with at least one field", "pass --order"),
    ("call key_field(..) with", "pass --flat-key with"),
    ("call figures_field(..) with", "pass --figures with"),
    ("call window_field(..) with", "pass --window-field with"),
    ("call item_id_field(..) on the builder", "pass --item-id"),
    ("call time_field(..) on the repository's builder", "pass --time"),
    ("call time_field(..) on the builder", "pass --time"),
    ("call time_field(..)", "pass --time"),
    ("call unique_elements() on the builder", "pass --unique"),
    ("set id_field(\"_id\")", "pass --id _id"),
    ("window_field(..)", "--window-field"),
    ("change_fields(..) of the builder", "--change-fields"),
    ("change_fields(..)", "--change-fields"),
    ("remove version_field(..)", "omit --version"),
    ("version_field(..)", "--version-field"),
    ("source_key(..)", "--source-key"),
    ("from_field(..)", "--from-field"),
    (
        "choose one with keep(..)",
        "choose one by `archive repair --keep-in archive` or `archive repair --keep-in collection`",
    ),
    (
        "the server refuses the filter, nothing was changed: try it with find() in the shell, without",
        "the server refuses the filter of --where, nothing was changed: correct it, without",
    ),
    (
        "release its lease if the instance is gone",
        "run `schema release-lease` if the instance is gone",
    ),
    ("and call this again", "and run this again"),
    ("correct newest(..)", "correct --from"),
    ("keep_newest_by(..)", "--keep-newest-by"),
    ("related(..) of the builder", "--related"),
    ("related(..)", "--related"),
    (
        " authSource in the connection string",
        " --auth-source, or those in the connection string",
    ),
];

/// The words of a count, of many and of one.
const NOUNS: [(&str, &str); 9] = [
    ("items", "item"),
    ("children", "child"),
    ("elements", "element"),
    ("documents", "document"),
    ("buckets", "bucket"),
    ("revisions", "revision"),
    ("sources", "source"),
    ("positions", "position"),
    ("keys", "key"),
];
const VERBS: [(&str, &str); 3] = [("have", "has"), ("are", "is"), ("belong", "belongs")];

/// Returns a text of the library for an operator.
pub(crate) fn in_commands(pattern: Option<&str>, text: impl Display) -> String {
    let mut text = text.to_string();
    if pattern == Some("subset") {
        text = text.replace("with version_field(..)", "with --version");
    }
    let words = WORDS
        .iter()
        .fold(text, |text, (library, here)| match (text.contains(library), pattern) {
            (false, _) => text,
            (true, Some(pattern)) => text.replace(library, &here.replace("PATTERN", pattern)),
            (true, None) => text.replace(library, &here.replace("PATTERN ", "")),
        });
    // A command is run, and not called.
    singular(&with_options(&words.replace("call `", "run `")))
}

/// Returns the text of an error for an operator, with the command in place of the called method.
pub(crate) fn of_error(error: &Error) -> String {
    let text = in_commands(error.pattern(), error);
    let operation = error.operation().unwrap_or_default();
    let command = match operation {
        "ensure_sharded" => "shard",
        "migrate_page_size_from" => "resize",
        _ if operation.starts_with("ensure") => "indexes",
        _ if operation.starts_with("migrate") => "migrate",
        _ => &operation.replace('_', " "),
    };
    text.replacen(&format!(" {operation} on "), &format!(" {command} on "), 1)
}

/// Replaces the methods that name a field by their options, such as `count_field(..)` by `--count`.
fn with_options(text: &str) -> String {
    let here = text.split(' ').map(|word| match word.split_once("_field(..)") {
        Some((method, rest)) => format!("--{}{rest}", method.replace('_', "-")),
        None => word.to_owned(),
    });
    here.collect::<Vec<_>>().join(" ")
}

/// Corrects the words around the number 1, such as those of `1 items have`.
pub(crate) fn singular(text: &str) -> String {
    let mut words: Vec<&str> = text.split(' ').collect();
    for one in (0..words.len()).filter(|at| text.split(' ').nth(*at) == Some("1")) {
        // An adjective can stand before the noun.
        let mut after = (one + 1..words.len()).take(2);
        let Some(noun) = after.find(|at| NOUNS.iter().any(|(many, _)| *many == words[*at])) else {
            continue;
        };
        for at in [one.checked_sub(1), Some(noun), Some(noun + 1)].into_iter().flatten() {
            let Some(word) = words.get_mut(at) else { continue };
            if let Some((_, of_one)) = NOUNS.iter().chain(&VERBS).find(|(of_many, _)| of_many == word) {
                *word = of_one;
            }
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod repairing;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;
    use crate::args::Args;

    /// The crates whose texts the program prints, with their pattern.
    const CRATES: [(&str, Option<&str>); 10] = [
        ("core", None),
        ("bucket", Some("bucket")),
        ("outlier", Some("outlier")),
        ("subset", Some("subset")),
        ("embedded", Some("embedded")),
        ("history", Some("history")),
        ("reference", Some("reference")),
        ("schema", Some("schema")),
        ("archive", Some("archive")),
        ("cli", None),
    ];
    /// Files with texts of calls that no command makes: writes and reads of single documents, followers, and the steps of a service.
    const OF_PROGRAMS: [&str; 10] = [
        "/write",
        "/read",
        "/follow",
        "/pages",
        "/form",
        "/find",
        "/list.rs",
        "/update.rs",
        "/migrations/",
        "/replies.rs",
    ];

    /// Returns the strings of a file that users can see, in its lines of code.
    fn strings(text: &str) -> Vec<&str> {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code.lines().map(str::trim_start);
        let lines = lines.filter(|line| !line.starts_with("//") && !line.starts_with("#["));
        lines.flat_map(|line| line.split('"').skip(1).step_by(2)).collect()
    }

    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => files(&path, found),
                false => found.push(path),
            }
        }
    }

    /// Returns all texts as the program prints them.
    fn texts() -> Vec<String> {
        let mut texts = Vec::new();
        for (name, pattern) in CRATES {
            let mut sources = Vec::new();
            files(
                &Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src"),
                &mut sources,
            );
            for source in sources {
                let path = source.to_str().unwrap();
                if path.ends_with("words.rs") || (name != "cli" && OF_PROGRAMS.iter().any(|part| path.contains(part))) {
                    continue;
                }
                let text = fs::read_to_string(&source).unwrap();
                // What takes other repositories is a call of a program.
                let of_operators = strings(&text).into_iter().filter(|text| !text.contains("through(..)"));
                texts.extend(of_operators.map(|text| in_commands(pattern, text)));
            }
        }
        texts
    }

    /// Returns the first method of Rust that a text names.
    fn method(text: &str) -> Option<&str> {
        let calls = ["()", "(..)"].into_iter().flat_map(|call| text.match_indices(call));
        let named = calls.filter_map(|(at, _)| text[..at].rsplit(|c: char| !c.is_ascii_lowercase() && c != '_').next());
        named
            .into_iter()
            .find(|name| !name.is_empty() && !["initiate", "find"].contains(name))
    }

    #[test]
    fn no_text_names_a_method() {
        let texts = texts();
        assert!(texts.len() > 2000, "{}", texts.len());
        let sentences = texts.iter().filter(|text| text.contains(' '));
        let named: Vec<&String> = sentences.filter(|text| method(text).is_some()).collect();
        assert!(named.is_empty(), "{named:#?}");
    }

    #[test]
    fn each_command_that_a_text_names_is_one_of_the_program() {
        let program = Args::command();
        let is_command = |word: &str| program.get_subcommands().any(|command| command.get_name() == word);
        let (mut checked, mut wrong) = (0, Vec::new());
        let here = WORDS.iter().map(|(_, here)| here.replace("PATTERN", "bucket"));
        for text in texts().into_iter().chain(here) {
            for command in text.split('`').skip(1).step_by(2) {
                let command = command.replace("{pattern}", "bucket");
                let words = command.trim_start_matches("mongo-patterns ").split(' ');
                let words: Vec<&str> = words
                    .map(|word| match word {
                        "TIME" => "2026-01-01T00:00:00Z",
                        "N" | "ID" => "1",
                        word => word,
                    })
                    .collect();
                if words.len() < 2 || !is_command(words[0]) || command.contains(['{', '<', '.']) {
                    continue;
                }
                checked += 1;
                let parsed = program
                    .clone()
                    .try_get_matches_from([&["mongo-patterns"], &words[..]].concat());
                let is_right = parsed.map_or_else(|error| error.kind() == ErrorKind::MissingRequiredArgument, |_| true);
                wrong.extend((!is_right).then(|| format!("`{command}` in: {text}")));
            }
        }
        assert!(checked > 15 && wrong.is_empty(), "{checked} {wrong:#?}");
    }

    #[test]
    fn a_text_has_the_commands_of_its_pattern_and_the_grammar_of_one() {
        for (pattern, text, expected) in [
            (
                Some("reference"),
                "the copy has no valid version: call repair()",
                "the copy has no valid version: run `reference repair`",
            ),
            (
                Some("bucket"),
                "call ensure_indexes().replace_settings() if they are right",
                "run `bucket indexes --create --replace-settings` if they are right",
            ),
            (None, "call ensure_indexes() once", "run `indexes --create` once"),
            (
                None,
                "error 2 (BadValue): see as_driver_error() for the reason",
                "error 2 (BadValue)",
            ),
            (
                None,
                "choose another name with children_field(..), or child_id_field(..)",
                "choose another name with --children, or --child-id",
            ),
            (None, "1 items have no date", "1 item has no date"),
            (
                None,
                "there are 1 overflow documents and no flag",
                "there is 1 overflow document and no flag",
            ),
            (
                None,
                "11 items have, 1 children belong",
                "11 items have, 1 child belongs",
            ),
        ] {
            assert_eq!(in_commands(pattern, text), expected);
        }
    }
}
