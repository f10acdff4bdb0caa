//! The commands that a call would send, for an operator to read first.

use std::fmt;

use mongodb::bson::Document;
use serde::Serialize;

/// The plan of a migration; returned by the method `plan` of each.
///
/// ```
/// # use mongo_patterns::{Planned, PlannedCommand};
/// fn show<M: std::fmt::Debug>(planned: &Planned<M>) {
///     println!("{:?} by {} commands", planned.migrated, planned.commands.len());
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Planned<M> {
    /// The result that the migration would have now. Numbers that only a run can know are 0.
    pub migrated: M,
    /// The commands, in order, for the database of the collections.
    ///
    /// Two things are unknown in advance. A migration sends further commands for documents that other clients write
    /// concurrently. And the driver reads each cursor to its end by `getMore`.
    pub commands: Vec<PlannedCommand>,
    /// What to know before the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<PlanWarning>,
}

impl<M> Planned<M> {
    /// Creates it.
    pub fn new(migrated: M, commands: Vec<PlannedCommand>) -> Self {
        Self {
            migrated,
            commands,
            warnings: Vec::new(),
        }
    }

    /// Adds warnings.
    #[doc(hidden)]
    #[must_use]
    pub fn with_warnings(self, warnings: Vec<PlanWarning>) -> Self {
        Self { warnings, ..self }
    }
}

/// What to know before a run. Its text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "warning")]
#[non_exhaustive]
pub enum PlanWarning {
    /// A follower has a position in the change stream of a collection from which the run moves documents. It takes them for
    /// deleted ones.
    Followed {
        /// The name of the follower.
        follower: String,
        /// The collection.
        collection: String,
    },
}

impl fmt::Display for PlanWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Followed { follower, collection } = self;
        write!(
            f,
            "the follower `{follower}` follows `{collection}`, and takes documents that move for deleted ones: end it before the run, and delete its position, or leave its documents out"
        )
    }
}

/// A command that a call would send to its database.
///
/// ```
/// # use mongo_patterns::PlannedCommand;
/// fn show(commands: &[PlannedCommand]) {
///     for command in commands.iter().filter(|command| command.writes) {
///         println!("{}: {}", command.purpose, command.command);
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlannedCommand {
    /// Its purpose, in a few words.
    pub purpose: &'static str,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it runs on the database `admin` instead of the collections' database.
    pub on_admin: bool,
    /// Whether it runs on the database `config`, which a sharded cluster has.
    pub on_config: bool,
    /// The command, as `runCommand` takes it. It can hold user values, such as the keys that bound a chunk.
    pub command: Document,
}

impl PlannedCommand {
    /// A command that only reads.
    #[doc(hidden)]
    pub fn read(purpose: &'static str, command: Document) -> Self {
        Self {
            purpose,
            writes: false,
            on_admin: false,
            on_config: false,
            command,
        }
    }

    /// A command that writes.
    #[doc(hidden)]
    pub fn write(purpose: &'static str, command: Document) -> Self {
        Self {
            writes: true,
            ..Self::read(purpose, command)
        }
    }

    /// Sets the database `admin`.
    #[doc(hidden)]
    #[must_use]
    pub fn on_admin(mut self) -> Self {
        self.on_admin = true;
        self
    }

    /// Sets the database `config`.
    #[must_use]
    pub(crate) fn on_config(mut self) -> Self {
        self.on_config = true;
        self
    }
}

// The command can hold user values.
crate::redacted_debug!(
    PlannedCommand,
    |planned| "purpose" = planned.purpose,
    "writes" = planned.writes
);

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn debug_text_has_no_user_values() {
        let planned = PlannedCommand::write("migrate a chunk", doc! { "$lte": "alice" });
        assert!(planned.writes && !format!("{planned:?}").contains("alice"));
    }
}
