//! What a call would send, for an operator to read before it is sent.

use std::fmt;

use mongodb::bson::{Document, doc};

/// A command that a call would send to its database.
///
/// ```
/// # use mongo_patterns_core::PlannedCommand;
/// fn show(commands: &[PlannedCommand]) {
///     for command in commands.iter().filter(|command| command.writes) {
///         println!("{}: {}", command.purpose, command.command);
///     }
/// }
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct PlannedCommand {
    /// What it is for, in a few words.
    pub purpose: &'static str,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it goes to the database `admin`, and not to that of the collections.
    pub on_admin: bool,
    /// The command, as `runCommand` takes it. It can hold user values, such as the keys between which a chunk is.
    pub command: Document,
}

impl PlannedCommand {
    /// One that only reads.
    #[doc(hidden)]
    pub fn read(purpose: &'static str, command: Document) -> Self {
        Self {
            purpose,
            writes: false,
            on_admin: false,
            command,
        }
    }

    /// One that writes.
    #[doc(hidden)]
    pub fn write(purpose: &'static str, command: Document) -> Self {
        Self {
            purpose,
            writes: true,
            on_admin: false,
            command,
        }
    }

    /// It goes to the database `admin`.
    #[must_use]
    pub fn on_admin(mut self) -> Self {
        self.on_admin = true;
        self
    }
}

/// An aggregation as moves send it: on the primary as it is now, and ids compared by their bytes.
pub fn aggregation(collection: &str, stages: impl IntoIterator<Item = Document>) -> Document {
    doc! {
        "aggregate": collection,
        "pipeline": stages.into_iter().collect::<Vec<_>>(),
        "cursor": {},
        "allowDiskUse": true,
        "collation": { "locale": "simple" },
        "readConcern": { "level": "local" },
    }
}

/// An update as the driver sends it.
pub fn update(collection: &str, statement: Document) -> Document {
    doc! { "update": collection, "ordered": true, "updates": [statement] }
}

/// The command that lists the indexes of a collection.
pub fn list_indexes(collection: &str) -> Document {
    doc! { "listIndexes": collection, "cursor": { "batchSize": 1000 } }
}

/// Does not show the command, which can hold user values.
impl fmt::Debug for PlannedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlannedCommand")
            .field("purpose", &self.purpose)
            .field("writes", &self.writes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_debug_text_has_no_user_values() {
        let planned = PlannedCommand::write("move a chunk", doc! { "$lte": "alice" });
        assert!(planned.writes && !format!("{planned:?}").contains("alice"));
    }
}
