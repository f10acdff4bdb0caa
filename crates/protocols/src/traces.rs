//! Compares the models with the commands that the code sends to a server.
//!
//! The fault table of the integration tests records the commands of each call that has a model, without a fault, in
//! `traces.txt`. A model sends the same commands when one client runs alone, from documents like those of the table. So a
//! change of the commands in the code, or in a model, fails a test until both are changed.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use stateright::Model;

use crate::world::{Protocol, Ran, Step, World};

const TRACES: &str = include_str!("../../../tests/faults/table/traces.txt");

/// The calls of each model.
pub const CALLS: [(&str, &[&str]); 13] = [
    (
        "bucket",
        &[
            "BucketRepository::append",
            "BucketRepository::append_many",
            "BucketRepository::remove_item",
            "BucketRepository::delete_key",
        ],
    ),
    (
        "outlier",
        &[
            "OutlierRepository::push",
            "OutlierRepository::push_many",
            "OutlierRepository::push_unique",
            "OutlierRepository::remove",
            "OutlierRepository::update_element",
            "OutlierRepository::refresh",
            "OutlierRepository::delete",
        ],
    ),
    (
        "subset",
        &[
            "SubsetRepository::insert",
            "SubsetRepository::update",
            "SubsetRepository::delete",
            "SubsetRepository::delete_parent",
            "SubsetRepository::refresh",
            "SubsetRepository::refresh_all",
        ],
    ),
    ("migration", &["SubsetRepository::migrate_from_embedded"]),
    (
        "history",
        &[
            "HistoryRepository::insert",
            "HistoryRepository::update",
            "HistoryRepository::replace",
            "HistoryRepository::upsert",
            "HistoryRepository::delete",
            "HistoryRepository::restore",
            "HistoryRepository::delete_before",
            "HistoryRepository::keep_last",
        ],
    ),
    (
        "intervals",
        &[
            "IntervalRepository::insert",
            "IntervalRepository::update",
            "IntervalRepository::replace",
            "IntervalRepository::end",
        ],
    ),
    (
        "reference",
        &[
            "ReferenceRepository::insert",
            "ReferenceRepository::set_reference",
            "ReferenceRepository::update_source",
            "ReferenceRepository::delete_source",
        ],
    ),
    ("reference_follow", &["ReferenceRepository::follow"]),
    ("steps", &["Migrations::run"]),
    ("versions", &["SchemaRepository::update", "SchemaRepository::migrate"]),
    (
        "archive",
        &[
            "Archive::get",
            "Archive::restore",
            "Archive::restore_many",
            "Archive::run",
        ],
    ),
    ("wholes", &["Archive::restore", "Archive::restore_many", "Archive::run"]),
    ("files", &["FileArchive::run", "FileArchive::restore_file"]),
];

/// Returns the commands that a call sends while no other client does, until it ends or waits.
///
/// # Panics
/// If it does neither.
pub fn alone<P: Protocol>(protocol: &P, documents: &mut P::Documents, mut client: P::Client) -> Vec<&'static str> {
    let mut sent = Vec::new();
    while !protocol.has_ended(&client) {
        let before = client.clone();
        if protocol.run(documents, 0, &mut client) == Ran::Waits {
            break;
        }
        sent.extend(sends(protocol, &before, &client));
        assert!(sent.len() < 100, "{client:?} does not end");
    }
    sent
}

fn sends<P: Protocol>(protocol: &P, before: &P::Client, after: &P::Client) -> Vec<&'static str> {
    match protocol.is_mid_command(before) {
        true => Vec::new(),
        false => protocol.sends(before, after),
    }
}

/// Returns all commands that clients send in any order of their steps, without faults.
pub fn all<P: Protocol>(protocol: P) -> BTreeSet<&'static str> {
    let world = World { protocol, faults: 0 };
    let mut left = world.init_states();
    let mut seen: HashSet<_> = left.iter().cloned().collect();
    let mut sent = BTreeSet::new();
    while let Some(state) = left.pop() {
        let mut steps = Vec::new();
        world.actions(&state, &mut steps);
        for step in steps {
            let (Step::Runs(client), Some(next)) = (step, world.next_state(&state, step)) else {
                continue;
            };
            sent.extend(sends(&world.protocol, &state.clients[client], &next.clients[client]));
            if seen.insert(next.clone()) {
                left.push(next);
            }
        }
    }
    sent
}

/// The recorded commands of the calls of a model, which its test compares.
#[derive(Debug)]
pub struct Code {
    /// By the model of the table and the name of the operation.
    operations: BTreeMap<&'static str, Vec<String>>,
    is_of_one_field: bool,
    compared: BTreeSet<String>,
}

impl Code {
    /// Returns the commands of the calls of a model in [`CALLS`].
    ///
    /// # Panics
    /// If a call has no commands.
    pub fn of(model: &str) -> Self {
        let (_, calls) = CALLS.iter().find(|(name, _)| *name == model).expect("a model of CALLS");
        let mut operations = operations();
        operations.retain(|operation, _| calls.contains(&call(operation)));
        for wanted in *calls {
            let mut names = operations.keys();
            assert!(
                names.any(|operation| call(operation) == *wanted),
                "no trace of {wanted}"
            );
        }
        Self {
            operations,
            is_of_one_field: false,
            compared: BTreeSet::new(),
        }
    }

    /// Replaces a word of all commands, such as the collection of another table.
    #[must_use]
    pub fn with(mut self, word: &str, replacement: &str) -> Self {
        for command in self.operations.values_mut().flatten() {
            let words = command
                .split(' ')
                .map(|one| if one == word { replacement } else { one });
            *command = words.collect::<Vec<_>>().join(" ");
        }
        self
    }

    /// Counts equal commands that follow each other as one: those of several fields, each of which has its own.
    #[must_use]
    pub fn of_one_field(mut self) -> Self {
        self.is_of_one_field = true;
        self
    }

    /// Leaves out the read of the catalog, which a repository makes once.
    #[must_use]
    pub fn without_catalog(mut self) -> Self {
        for commands in self.operations.values_mut() {
            commands.retain(|command| command != "read mongo_patterns");
        }
        self
    }

    /// Does what [`without_catalog`](Self::without_catalog) does, for the operations whose names contain this text.
    pub fn without_catalog_in(&mut self, text: &str) {
        let operations = self.operations.iter_mut();
        for (_, commands) in operations.filter(|(operation, _)| operation.contains(text)) {
            commands.retain(|command| command != "read mongo_patterns");
        }
    }

    /// Leaves out the operations whose names contain this text, which the model does not have.
    ///
    /// # Panics
    /// If there is none.
    pub fn leave_out(&mut self, text: &str) {
        let before = self.operations.len();
        self.operations.retain(|operation, _| !operation.contains(text));
        assert!(self.operations.len() < before, "no operation contains {text:?}");
    }

    /// Asserts that the code sends the commands of the model in an operation.
    ///
    /// # Panics
    /// If it does not, with the first command that differs.
    pub fn sends(&mut self, operation: &str, model: &[&str]) {
        let Some(code) = self.operations.get(operation) else {
            panic!("traces.txt has no {operation}")
        };
        let mut code: Vec<&str> = code.iter().map(String::as_str).collect();
        let mut model = model.to_vec();
        if self.is_of_one_field {
            let bare = |command: &str| command.replace("begin: ", "").replace("then: ", "");
            for commands in [&mut code, &mut model] {
                commands.dedup_by(|next, command| bare(next) == bare(command));
            }
        }
        let same = code
            .iter()
            .zip(&model)
            .take_while(|(code, model)| code == model)
            .count();
        assert!(
            same == code.len() && same == model.len(),
            "{operation}: the code sends {:?} where the model sends {:?}, after {:?}",
            code.get(same),
            model.get(same),
            &code[..same]
        );
        self.compared.insert(operation.to_owned());
    }

    /// Asserts that all operations were compared, and that these are all commands of the model that none of them has.
    ///
    /// # Panics
    /// If one was not compared, or others have no trace.
    pub fn has_no_trace_of<const N: usize>(&self, all: &BTreeSet<&str>, without: [&str; N]) {
        let mut operations = self.operations.keys();
        let left = operations.find(|operation| !self.compared.contains(**operation));
        assert_eq!(left, None, "an operation that is not compared");
        let recorded: BTreeSet<&str> = self.operations.values().flatten().map(String::as_str).collect();
        let missing: BTreeSet<&str> = all.difference(&recorded).copied().collect();
        assert_eq!(missing, without.into(), "commands without a trace");
    }
}

fn operations() -> BTreeMap<&'static str, Vec<String>> {
    let mut operations = BTreeMap::new();
    let mut last = "";
    for line in TRACES.lines() {
        match line.strip_prefix("  ") {
            None => {
                last = line;
                operations.insert(line, Vec::new());
            }
            Some(command) => operations.entry(last).or_default().push(command.to_owned()),
        }
    }
    operations
}

/// Returns the type and the function of an operation.
fn call(operation: &str) -> &str {
    let (_, name) = operation.split_once(' ').unwrap_or_default();
    name.split(',').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_call_has_a_model() {
        let mut calls = CALLS.iter().flat_map(|(_, calls)| *calls);
        for operation in operations().keys() {
            assert!(calls.clone().any(|one| *one == call(operation)), "{operation}");
        }
        assert!(calls.any(|call| *call == "BucketRepository::append"));
    }
}
