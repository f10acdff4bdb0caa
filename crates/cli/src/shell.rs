//! Formats values in mongosh syntax.

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Bson, Document};

use crate::output::{WIDTH, grouped};

/// The number of elements that are shown of a long array. The rest is replaced by a text that the shell refuses, so a
/// shortened command cannot run.
const SHOWN: usize = 20;

/// Formats a value on one line if it fits, otherwise with one line per field or element. A long array is shortened.
pub(crate) fn pretty(value: &Bson) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text
}

/// Formats a name for a shell command, with quotes if necessary.
pub(crate) fn name(name: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "_-".contains(character);
    if name.chars().all(is_plain) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

fn write(text: &mut String, value: &Bson, depth: usize) {
    let line = inline(value);
    let used = text.len() - text.rfind('\n').map_or(0, |newline| newline + 1);
    if used + line.len() < WIDTH {
        text.push_str(&line);
        return;
    }
    let pad = "  ".repeat(depth + 1);
    match value {
        Bson::Document(document) if !document.is_empty() => {
            text.push('{');
            for (name, value) in document {
                text.push_str(&format!("\n{pad}{}: ", field(name)));
                write(text, value, depth + 1);
                text.push(',');
            }
            close(text, depth, '}');
        }
        Bson::Array(values) if !values.is_empty() => {
            text.push('[');
            let shown = if values.len() > SHOWN { SHOWN / 2 } else { values.len() };
            for value in &values[..shown] {
                text.push_str(&format!("\n{pad}"));
                write(text, value, depth + 1);
                text.push(',');
            }
            if shown < values.len() {
                text.push_str(&format!(
                    "\n{pad}... {} more in --json,",
                    grouped_len(values.len() - shown)
                ));
            }
            close(text, depth, ']');
        }
        _ => text.push_str(&line),
    }
}

fn grouped_len(length: usize) -> String {
    grouped(u64::try_from(length).unwrap_or(u64::MAX))
}

fn close(text: &mut String, depth: usize, bracket: char) {
    text.pop();
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
    text.push(bracket);
}

/// Formats a value on one line.
fn inline(value: &Bson) -> String {
    match value {
        Bson::Document(document) => inline_document(document),
        Bson::Array(values) => {
            let mut shown: Vec<String> = values.iter().take(SHOWN).map(inline).collect();
            if values.len() > SHOWN {
                shown.truncate(SHOWN / 2);
                shown.push(format!(
                    "... {} more in --json",
                    grouped_len(values.len() - shown.len())
                ));
            }
            format!("[{}]", shown.join(", "))
        }
        Bson::String(text) => quoted(text),
        Bson::Int64(number) => format!("Long({})", quoted(&number.to_string())),
        Bson::ObjectId(id) => format!("ObjectId({})", quoted(&id.to_hex())),
        Bson::DateTime(time) => match time.try_to_rfc3339_string() {
            Ok(time) => format!("ISODate({})", quoted(&time)),
            Err(_) => format!("new Date({})", time.timestamp_millis()),
        },
        Bson::Binary(binary) if binary.subtype == BinarySubtype::Uuid => match binary.to_uuid() {
            Ok(id) => format!("UUID({})", quoted(&id.to_string())),
            Err(_) => ejson(value),
        },
        Bson::Null | Bson::Boolean(_) | Bson::Int32(_) | Bson::Double(_) => value.to_string(),
        other => ejson(other),
    }
}

/// Formats a value that has no constructor here.
fn ejson(value: &Bson) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    format!("EJSON.parse({})", quoted(&json))
}

fn inline_document(document: &Document) -> String {
    if document.is_empty() {
        return "{}".to_owned();
    }
    let fields: Vec<String> = document
        .iter()
        .map(|(name, value)| format!("{}: {}", field(name), inline(value)))
        .collect();
    format!("{{ {} }}", fields.join(", "))
}

fn field(name: &str) -> String {
    let first = name
        .chars()
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || "_$".contains(first));
    if first
        && name
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "_$".contains(character))
    {
        name.to_owned()
    } else {
        quoted(name)
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, doc};

    use super::*;

    #[test]
    fn values_are_formatted_in_shell_syntax() {
        let value = doc! { "_id": 5_i64, "a.b": "x\"y", "$set": { "t": DateTime::from_millis(0) }, "e": [1, null, {}] };
        let expected =
            r#"{ _id: Long("5"), "a.b": "x\"y", $set: { t: ISODate("1970-01-01T00:00:00Z") }, e: [1, null, {}] }"#;
        assert_eq!(inline(&value.into()), expected);
    }

    #[test]
    fn a_long_array_is_shortened() {
        let ids: Vec<i32> = (0..1030).collect();
        let text = pretty(&Bson::from(doc! { "$in": ids }));
        assert_eq!(
            text,
            "{ $in: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... 1,020 more in --json] }"
        );
        let long: Vec<String> = (0..30).map(|n| format!("{n}{}", "x".repeat(40))).collect();
        let text = pretty(&Bson::from(long));
        assert_eq!(text.lines().count(), 1 + 10 + 1 + 1, "{text}");
        assert!(text.contains("  ... 20 more in --json\n]"), "{text}");
    }

    #[test]
    fn a_long_document_has_one_line_per_field() {
        let long = "x".repeat(50);
        let value = doc! { "a": { "b": &long, "c": &long }, "d": 1 };
        let text = pretty(&value.into());
        let expected = format!("{{\n  a: {{\n    b: \"{long}\",\n    c: \"{long}\"\n  }},\n  d: 1\n}}");
        assert_eq!(text, expected);
    }
}
