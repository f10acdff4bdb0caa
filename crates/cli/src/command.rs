//! The commands of this program that its output names.

use std::fmt;
use std::sync::OnceLock;

/// The database of the option or the profile, which each command names.
static DATABASE: OnceLock<String> = OnceLock::new();

/// A command of this program, with its options.
pub(crate) struct Command(String);

/// Sets the database that each command names.
pub(crate) fn name_database(name: &str) {
    let _ = DATABASE.set(name.to_owned());
}

/// Begins a command of a pattern.
pub(crate) fn of_program(pattern: &str) -> Command {
    let mut command = Command("mongo-patterns".to_owned());
    if let Some(name) = DATABASE.get() {
        command.option("db", name);
    }
    command.verb(pattern);
    command
}

impl Command {
    /// Adds an option with its value.
    pub(crate) fn option(&mut self, name: &str, value: &str) -> &mut Self {
        let separator = if value.starts_with('-') { "=" } else { " " };
        self.verb(&format!("--{name}{separator}{}", quoted(value)))
    }

    /// Adds the only value that is no option.
    pub(crate) fn value(&mut self, value: &str) -> &mut Self {
        let separator = if value.starts_with('-') { "-- " } else { "" };
        self.verb(&format!("{separator}{}", quoted(value)))
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

/// Returns a word for the shell, which reads control characters in `$'..'` only.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-.,=/".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    if !value.chars().any(char::is_control) {
        return format!("'{}'", value.replace('\'', r"'\''"));
    }
    let escaped = value.chars().map(|c| match c {
        '\'' | '\\' => format!("\\{c}"),
        c if c.is_control() => c.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        c => c.to_string(),
    });
    format!("$'{}'", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_passes_the_values() {
        let mut command = of_program("bucket");
        let values = ["trades", "-rf", "a b", "it's", "a\tb'\\\u{85}", ""];
        for value in values {
            command.option("o", value);
        }
        let expected =
            r"mongo-patterns bucket --o trades --o=-rf --o 'a b' --o 'it'\''s' --o $'a\x09b\'\\\xc2\x85' --o ''";
        assert_eq!(command.to_string(), expected);
        let shell = std::process::Command::new("bash")
            .args(["-c", &format!("printf '%s|' {}", values.map(quoted).join(" "))])
            .output();
        let shell = shell.expect("bash starts");
        assert_eq!(
            String::from_utf8(shell.stdout).ok(),
            Some(values.map(|value| format!("{value}|")).concat())
        );
        assert_eq!(
            of_program("schema").value("-rf").to_string(),
            "mongo-patterns schema -- -rf"
        );
    }
}
