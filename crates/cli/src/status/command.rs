//! The commands for an entry.

use super::entries::Entry;
use crate::command::{Command, of_program};

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
