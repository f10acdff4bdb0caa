//! The commands of this program that its output names.

use std::fmt;

/// A command of this program, with its options.
pub(crate) struct Command(String);

/// Begins a command of a pattern.
pub(crate) fn of_program(pattern: &str) -> Command {
    Command(format!("mongo-patterns {pattern}"))
}

impl Command {
    /// Adds an option with its value.
    pub(crate) fn option(&mut self, name: &str, value: &str) -> &mut Self {
        let is_plain = |c: char| c.is_alphanumeric() || "_-.,=/".contains(c);
        let value = match value.chars().all(is_plain) {
            true => value.to_owned(),
            false => format!("'{}'", value.replace('\'', r"'\''")),
        };
        self.verb(&format!("--{name} {value}"))
    }

    /// Adds words.
    pub(crate) fn verb(&mut self, words: &str) -> &mut Self {
        self.0 = format!("{} {words}", self.0);
        self
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
