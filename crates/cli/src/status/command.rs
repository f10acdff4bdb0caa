//! The commands of this program that the status names.

use std::fmt;

use super::entries::Entry;

/// A command of this program, with its options.
pub(crate) struct Command(String);

/// Begins a command of a pattern.
pub(super) fn of_program(pattern: &str) -> Command {
    Command(format!("mongo-patterns {pattern}"))
}

impl Command {
    /// Adds an option with its value.
    pub(super) fn option(&mut self, name: &str, value: &str) -> &mut Self {
        let is_plain = |c: char| c.is_alphanumeric() || "_-.,=/".contains(c);
        let value = match value.chars().all(is_plain) {
            true => value.to_owned(),
            false => format!("'{}'", value.replace('\'', r"'\''")),
        };
        self.verb(&format!("--{name} {value}"))
    }

    /// Adds words.
    pub(super) fn verb(&mut self, words: &str) -> &mut Self {
        self.0 = format!("{} {words}", self.0);
        self
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Entry {
    /// Returns a command for its collections. The catalog has the other settings.
    pub(super) fn command(&self, verb: &str) -> Option<Command> {
        let field = match self.pattern.as_str() {
            "outlier" => "array",
            "subset" => "subset",
            "embedded" => "children",
            "reference" => "reference",
            "bucket" | "history" | "trash" => "",
            "archive" if !self.settings.contains_key("files") => "",
            _ => return None,
        };
        let mut command = of_program(&self.pattern);
        command.option("collection", &self.collection.coll);
        if let Some(name) = self.field.as_ref().filter(|_| !self.is_only) {
            command.option(field, name);
        }
        command.verb(verb);
        Some(command)
    }
}
