//! Standard output: findings as they are found, and a summary; as text, or with `--json` as JSON.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write, stderr, stdout};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use console::style;
use mongo_patterns_core::{Error, Repository};
use mongodb::bson::Bson;
use serde_json::{Map, Value, json};

use crate::failure::{Exit, Failure};

/// The width of the output, unless the terminal is narrower.
pub(crate) const WIDTH: usize = 80;

/// The format and destination of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// The number of findings to which a verification counts, which prints none of them.
    counts_to: Option<u64>,
    is_terminal: bool,
}

/// A finding or a repair of one document or key.
pub(crate) struct Record<'a> {
    /// The type of the record, such as `finding`.
    pub(crate) kind: &'static str,
    /// The collection of the document.
    pub(crate) collection: &'a str,
    pub(crate) id: Option<Bson>,
    /// The text, in one sentence.
    pub(crate) text: String,
    /// An object with further fields for `--json`.
    pub(crate) fields: Value,
}

/// The result of a command.
pub(crate) struct Summary {
    command: Cow<'static, str>,
    namespace: String,
    rows: Vec<(Cow<'static, str>, Value)>,
}

impl Summary {
    pub(crate) fn new(command: impl Into<Cow<'static, str>>, namespace: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            namespace: namespace.into(),
            rows: Vec::new(),
        }
    }

    /// Creates the summary of a command of a pattern.
    pub(crate) fn of(repository: &dyn Repository, command: &str) -> Self {
        let namespace = repository.namespaces()[0].to_string();
        Self::new(format!("{} {command}", repository.pattern()), namespace)
    }

    pub(crate) fn row(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.rows.push((name.into(), value.into()));
        self
    }
}

impl Summary {
    /// Returns whether all of its numbers are 0, but those of skipped documents, commands and indexes.
    pub(crate) fn is_zero(&self) -> bool {
        let is_zero = |value: &Value| *value == 0 || *value == false || value.is_string();
        let is_other = |name: &str| {
            ["skipped", "commands", "created"]
                .iter()
                .any(|other| name.starts_with(other))
        };
        self.rows.iter().all(|(name, value)| is_zero(value) || is_other(name))
    }
}

impl Output {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self {
            json,
            quiet,
            counts_to: None,
            is_terminal: stdout().is_terminal(),
        }
    }

    /// Returns the output of a verification that prints nothing but its progress, and counts up to this number of findings.
    pub(crate) fn counting(self, findings: u64) -> Self {
        let counts_to = Some(findings);
        Self { counts_to, ..self }
    }

    /// Returns the most findings that a verification reads.
    pub(crate) fn most_findings(self) -> u64 {
        self.counts_to.unwrap_or(u64::MAX)
    }

    fn line(self, text: &str) -> io::Result<()> {
        self.counts_to.map_or_else(|| line(text), |_| Ok(()))
    }

    pub(crate) fn record(self, record: Record<'_>) -> io::Result<()> {
        if self.json {
            let mut object = Map::new();
            object.insert("type".into(), record.kind.into());
            object.insert("collection".into(), record.collection.into());
            if let Some(id) = &record.id {
                object.insert("_id".into(), to_json(id));
            }
            if let Value::Object(fields) = record.fields {
                object.extend(fields);
            }
            object.insert("text".into(), record.text.into());
            return self.line(&Value::Object(object).to_string());
        }
        let id = record.id.map(|id| format!(" {}", printable(&id.to_string())));
        let subject = format!(
            "{}{}",
            style(printable(record.collection)).cyan(),
            id.unwrap_or_default()
        );
        if self.is_terminal {
            self.line(&format!("{subject}\n{}", wrapped(&record.text, 4)))
        } else {
            self.line(&format!("{subject}: {}", record.text))
        }
    }

    pub(crate) fn summary(self, summary: &Summary, exit: Exit) -> io::Result<()> {
        if self.json {
            let mut object = Map::new();
            object.insert("type".into(), "summary".into());
            object.insert("command".into(), summary.command.as_ref().into());
            object.insert("namespace".into(), summary.namespace.clone().into());
            let rows = summary.rows.iter();
            object.extend(rows.map(|(name, value)| (name.to_string(), value.clone())));
            object.insert("exit_code".into(), exit.code().into());
            return self.line(&Value::Object(object).to_string());
        }
        let verdict = match exit {
            Exit::Success => style("ok").green(),
            _ => style("see above").yellow(),
        };
        let title = format!("{} {}", summary.command, printable(&summary.namespace));
        self.line(&format!("{}: {verdict}", style(title).bold()))?;
        let width = summary.rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in &summary.rows {
            let value = match value {
                Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), grouped),
                Value::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
                Value::String(text) => printable(text),
                Value::Null => "none".to_owned(),
                other => other.to_string(),
            };
            self.line(&format!("  {:width$}  {value}", name.replace('_', " ")))?;
        }
        Ok(())
    }

    /// Prints text. With `--json` it prints nothing.
    pub(crate) fn text(self, text: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { self.line(text) }
    }

    /// Prints a JSON object. Without `--json` it prints nothing.
    pub(crate) fn object(self, object: &Value) -> io::Result<()> {
        if self.json {
            self.line(&object.to_string())
        } else {
            Ok(())
        }
    }

    /// Prints a heading. With `--json` it prints nothing.
    pub(crate) fn heading(self, text: &str) -> io::Result<()> {
        self.text(&format!("\n{}", style(text).bold()))
    }

    /// Prints a table, with all columns but the first on the right. With `--json` it prints nothing.
    pub(crate) fn table(self, mut table: Table) -> io::Result<()> {
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string().lines().try_for_each(|line| {
            debug_assert!(line.trim_end().chars().count() <= WIDTH, "{line}");
            self.text(line.trim_end())
        })
    }

    /// Prints a line to standard error, unless it is quiet.
    pub(crate) fn notice(self, text: &str) {
        if !self.quiet {
            let _ = writeln!(stderr(), "{text}");
        }
    }

    /// Prints the error to standard error, and the document at fault and the message of the server to standard output, because
    /// these have user values. With `--json`, both are one object on standard output too.
    pub(crate) fn failure(self, failure: &Failure) {
        if failure.exit == Exit::BrokenPipe {
            return;
        }
        let error = failure.error.as_ref();
        let document = error.and_then(|error| Some((error.document_namespace()?, error.document_id()?)));
        let message = failure.server_message();
        // The error itself follows, so an output error here is ignored.
        if self.json {
            let error = error.and_then(|error| serde_json::to_value(error).ok());
            let mut object = error.unwrap_or_else(|| json!({}));
            object["type"] = "error".into();
            object["exit_code"] = failure.exit.code().into();
            object["text"] = failure.text.clone().into();
            if let Some(message) = message {
                object["server_message"] = message.into();
            }
            if let Some((namespace, id)) = document {
                object["collection"] = namespace.coll.clone().into();
                object["_id"] = to_json(id);
            }
            let _ = self.object(&object);
        } else if let Some((namespace, id)) = document {
            let field = error.and_then(Error::field);
            let at = field.map(|field| format!(", in its field `{field}`"));
            let _ = self.record(Record {
                kind: "document",
                collection: &namespace.coll,
                id: Some(id.clone()),
                text: format!("this document is at fault{}", at.unwrap_or_default()),
                fields: json!({}),
            });
        }
        if let Some(message) = message {
            let _ = self.text(&format!("the server says: {}", printable(message)));
        }
        let error = style("error").red().bold().for_stderr();
        let _ = writeln!(stderr(), "{error}: {}", failure.text);
    }
}

/// Creates a table without lines.
pub(crate) fn new_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Prints one or several lines. Returns an error if the reader of the output has closed it.
pub(crate) fn line(text: &str) -> io::Result<()> {
    writeln!(stdout().lock(), "{text}")
}

/// Converts to MongoDB extended JSON.
pub(crate) fn to_json(value: &Bson) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// Escapes control characters, which a terminal would interpret.
pub(crate) fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let escaped = |character: char| -> String {
        if character.is_control() {
            character.escape_unicode().collect()
        } else {
            character.to_string()
        }
    };
    text.chars().map(escaped).collect()
}

/// Formats a number with its noun, which gets an `s` unless the number is 1: `1 bucket`, `2 buckets`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// Formats a number with commas: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Wraps at [`WIDTH`] characters, and indents each line.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let current = lines
            .last_mut()
            .filter(|line| line.is_empty() || indent + line.chars().count() + 1 + word.chars().count() <= WIDTH);
        match current {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    let pad = " ".repeat(indent);
    lines
        .iter()
        .map(|line| format!("{pad}{line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        let grouped = [0, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(grouped, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn control_characters_in_values_are_escaped() {
        assert_eq!(printable("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(printable("größe"), "größe");
    }

    #[test]
    fn text_is_wrapped_at_words() {
        let text = wrapped(&"word ".repeat(30), 4);
        assert!(text.lines().count() == 2 && text.lines().all(|line| line.starts_with("    ") && line.len() <= WIDTH));
    }
}
