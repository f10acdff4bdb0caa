//! The commands that a call would send, for an operator to read first.

use mongodb::bson::Document;

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
    /// Its purpose, in a few words.
    pub purpose: &'static str,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it runs on the database `admin` instead of that of the collections.
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
