//! The commands for an entry.

use super::entries::Entry;
use crate::command::{Command, of_program};

/// What creates the indexes of an entry.
pub(super) const CREATE: &str = "indexes --create";

impl Entry {
    /// Returns a command for its collections. The catalog has the other settings.
    pub(super) fn command(&self, verb: &str) -> Option<Command> {
        if self.is_later {
            return None;
        }
        let field = match self.pattern.as_str() {
            "outlier" => "array",
            "subset" => "subset",
            "embedded" => "children",
            "reference" => "reference",
            "bucket" | "history" | "trash" => "",
            "archive" if !self.settings.contains_key("files") => "",
            "schema" if verb == CREATE => {
                let mut command = of_program("schema");
                command.verb(verb).value(&self.collection.coll);
                return Some(command);
            }
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
