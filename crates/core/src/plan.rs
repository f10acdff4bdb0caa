//! What a call would send, for an operator to read before it is sent.

use std::fmt;

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
    /// What it is for, in a few words.
    pub purpose: &'static str,
    /// Whether it writes.
    pub writes: bool,
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
            command,
        }
    }

    /// One that writes.
    #[doc(hidden)]
    pub fn write(purpose: &'static str, command: Document) -> Self {
        Self {
            purpose,
            writes: true,
            command,
        }
    }
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
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn its_debug_text_has_no_user_values() {
        let planned = PlannedCommand::write("move a chunk", doc! { "$lte": "alice" });
        assert!(planned.writes && !format!("{planned:?}").contains("alice"));
    }
}
