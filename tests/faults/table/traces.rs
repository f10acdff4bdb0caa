//! The commands of calls that have a model in `crates/protocols`, which compares them with it.
//!
//! `traces.txt` has the operations of these calls, each with the commands of a run without a fault. A call joins with a line
//! for one of its operations.

use std::collections::{BTreeMap, BTreeSet};

use mongo_patterns_testkit::RecordedCommand;
use mongodb::bson::Bson;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/faults/table/traces.txt");

/// The commands of the operations, by model and name of the operation.
#[derive(Default)]
pub(super) struct Traces(BTreeMap<String, Vec<String>>);

impl Traces {
    /// Adds the commands of an operation.
    pub(super) fn add(&mut self, model: &str, operation: &str, sent: &[RecordedCommand]) {
        self.0.insert(format!("{model} {operation}"), lines(sent));
    }

    /// Checks that the file has these commands, or writes them to it.
    pub(super) fn check(&self) {
        let stored = std::fs::read_to_string(FILE).unwrap();
        let operations = || stored.lines().filter(|line| !line.starts_with(' '));
        let calls: BTreeSet<&str> = operations().map(call).collect();
        let of_calls = self.0.iter().filter(|(operation, _)| calls.contains(call(operation)));
        let text = |(operation, lines): (&String, &Vec<String>)| {
            let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
            format!("{operation}\n{lines}")
        };
        let recorded: Vec<String> = of_calls.map(text).collect();
        if std::env::var_os("MONGO_PATTERNS_TRACES").is_some() {
            return std::fs::write(FILE, recorded.concat()).unwrap();
        }
        let changed: String = recorded.iter().filter(|one| !stored.contains(*one)).cloned().collect();
        assert!(
            stored == recorded.concat(),
            "traces.txt differs; with the environment variable MONGO_PATTERNS_TRACES this test writes it:\n{changed}"
        );
    }
}

/// Returns the type and the function of an operation, without its model and case.
fn call(operation: &str) -> &str {
    let (_, name) = operation.split_once(' ').unwrap_or_default();
    name.split(',').next().unwrap_or_default()
}

/// Returns a line for each command that reads or writes documents, or ends a transaction: in a transaction after `begin:` or
/// `then:`.
fn lines(sent: &[RecordedCommand]) -> Vec<String> {
    let line = |sent: &RecordedCommand| {
        let command = &sent.command;
        let is_end = ["commitTransaction", "abortTransaction"].contains(&sent.name.as_str());
        let line = if is_end { sent.name.clone() } else { verb(sent)? };
        if !command.contains_key("autocommit") {
            return Some(line);
        }
        let begins = command.contains_key("startTransaction");
        Some(format!("{}: {line}", if begins { "begin" } else { "then" }))
    };
    sent.iter().filter_map(line).collect()
}

/// Returns what a command does to which collection. `None` for one of indexes, of the server, or for more of a cursor.
fn verb(sent: &RecordedCommand) -> Option<String> {
    let statements = |field: &str| {
        let all = sent.command.get_array(field).into_iter().flatten();
        all.filter_map(Bson::as_document)
    };
    let has = |field: &str, flag: &str| statements(field).any(|one| one.get_bool(flag).unwrap_or(false));
    let flag = |flag: &str| sent.command.get_bool(flag).unwrap_or(false);
    let of = sent.command.get_str(&sent.name).unwrap_or("the server");
    let verb = match sent.name.as_str() {
        "aggregate" => match statements("pipeline").find_map(|stage| stage.get_document("$merge").ok()) {
            Some(merge) => return Some(format!("merge {of} into {}", merge.get_str("into").unwrap())),
            None => "read",
        },
        "find" | "count" => "read",
        "insert" => "insert",
        "update" if has("updates", "upsert") => "upsert",
        "update" if has("updates", "multi") => "updateMany",
        "update" => "update",
        "delete" if statements("deletes").all(|one| one.get_i32("limit").is_ok_and(|limit| limit == 1)) => "delete",
        "delete" => "deleteMany",
        "findAndModify" if flag("remove") => "delete",
        "findAndModify" if flag("upsert") => "upsert",
        "findAndModify" => "update",
        _ => return None,
    };
    Some(format!("{verb} {of}"))
}
