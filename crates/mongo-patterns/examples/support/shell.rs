//! Formats BSON and commands in mongosh syntax.

use std::fmt::Write;

use mongo_patterns_testkit::RecordedCommand;
use mongodb::bson::{Bson, Document};

/// Formats a value over several lines, like results in the shell.
pub fn pretty(value: &Bson) -> String {
    let mut text = String::new();
    write_value(&mut text, value, Some(0));
    text
}

/// Formats documents as an array over several lines.
pub fn pretty_all(documents: impl IntoIterator<Item = Document>) -> String {
    pretty(&Bson::Array(documents.into_iter().map(Bson::Document).collect()))
}

/// Formats a value on one line.
pub fn compact(value: &Bson) -> String {
    let mut text = String::new();
    write_value(&mut text, value, None);
    text
}

/// Formats a command as the shell call that sends it.
pub fn call(command: &RecordedCommand) -> String {
    let sent = command.essence();
    let collection = sent.get_str(&command.name).unwrap_or_default();
    match command.name.as_str() {
        "update" => update_call(collection, &sent),
        "findAndModify" => find_and_modify_call(collection, &sent),
        "find" => find_call(collection, &sent),
        _ => None,
    }
    .unwrap_or_else(|| format!("db.runCommand({})", compact(&Bson::Document(sent))))
}

fn update_call(collection: &str, sent: &Document) -> Option<String> {
    let [Bson::Document(statement)] = sent.get_array("updates").ok()?.as_slice() else {
        return None;
    };
    let mut options = statement.clone();
    let filter = options.remove("q")?;
    let update = options.remove("u")?;
    let call = match options.remove("multi") {
        Some(Bson::Boolean(true)) => "updateMany",
        _ => "updateOne",
    };
    let mut text = format!("db.{collection}.{call}({}, {}", compact(&filter), compact(&update));
    if !options.is_empty() {
        write!(text, ", {}", compact(&Bson::Document(options))).ok()?;
    }
    text.push(')');
    Some(text)
}

fn find_and_modify_call(collection: &str, sent: &Document) -> Option<String> {
    let mut options = Document::new();
    for (option, name) in [("sort", "sort"), ("fields", "projection"), ("hint", "hint")] {
        if let Some(value) = sent.get(option) {
            options.insert(name, value);
        }
    }
    Some(format!(
        "db.{collection}.findOneAndUpdate({}, {}, {})",
        compact(sent.get("query")?),
        compact(sent.get("update")?),
        compact(&Bson::Document(options))
    ))
}

fn find_call(collection: &str, sent: &Document) -> Option<String> {
    let mut text = format!("db.{collection}.find({}", compact(sent.get("filter")?));
    if let Some(projection) = sent.get("projection") {
        write!(text, ", {}", compact(projection)).ok()?;
    }
    text.push(')');
    // The shell accepts index bounds only with the index name.
    let bounds = sent.contains_key("min").then_some(["min", "max", "hint"]);
    for step in bounds.into_iter().flatten().chain(["sort", "skip", "limit"]) {
        if let Some(value) = sent.get(step) {
            write!(text, ".{step}({})", compact(value)).ok()?;
        }
    }
    Some(text)
}

/// Writes a value with line breaks from this depth, or on one line.
fn write_value(text: &mut String, value: &Bson, depth: Option<usize>) {
    match value {
        Bson::Document(document) => {
            let fields = document.iter().map(|(name, value)| (Some(name.as_str()), value));
            write_items(text, ['{', '}'], fields, depth);
        }
        Bson::Array(values) => {
            let elements = values.iter().map(|value| (None, value));
            write_items(text, ['[', ']'], elements, depth);
        }
        Bson::String(string) => {
            let escaped = string.replace('\\', "\\\\").replace('\'', "\\'");
            let _ = write!(text, "'{escaped}'");
        }
        Bson::Int32(number) => text.push_str(&number.to_string()),
        Bson::Int64(number) => text.push_str(&number.to_string()),
        Bson::Double(number) => text.push_str(&number.to_string()),
        Bson::Boolean(boolean) => text.push_str(&boolean.to_string()),
        Bson::Null => text.push_str("null"),
        Bson::DateTime(time) => {
            let _ = write!(text, "ISODate(\"{}\")", iso(*time));
        }
        Bson::Decimal128(number) => {
            let _ = write!(text, "NumberDecimal(\"{number}\")");
        }
        // Generated ids differ in each run.
        Bson::ObjectId(_) => text.push_str("ObjectId(..)"),
        Bson::RegularExpression(regex) => {
            let _ = write!(text, "/{}/{}", regex.pattern.as_str(), regex.options.as_str());
        }
        other => text.push_str(&other.to_string()),
    }
}

fn write_items<'v>(
    text: &mut String,
    [open, close]: [char; 2],
    items: impl Iterator<Item = (Option<&'v str>, &'v Bson)>,
    depth: Option<usize>,
) {
    text.push(open);
    let mut empty = true;
    for (name, value) in items {
        if !empty {
            text.push(',');
        }
        empty = false;
        match depth {
            Some(depth) => {
                let _ = write!(text, "\n{:width$}", "", width = 2 * depth + 2);
            }
            None => text.push(' '),
        }
        if let Some(name) = name {
            let plain = name
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || "_$".contains(character));
            let quote = if plain { "" } else { "'" };
            let _ = write!(text, "{quote}{name}{quote}: ");
        }
        write_value(text, value, depth.map(|depth| depth + 1));
    }
    match depth {
        Some(depth) if !empty => {
            let _ = write!(text, "\n{:width$}", "", width = 2 * depth);
        }
        None if !empty => text.push(' '),
        _ => {}
    }
    text.push(close);
}

/// Formats a date with milliseconds, like the shell.
fn iso(time: mongodb::bson::DateTime) -> String {
    let text = time.try_to_rfc3339_string().unwrap_or_default();
    let millis = time.timestamp_millis().rem_euclid(1000);
    let seconds = text.split(['.', 'Z']).next().unwrap_or_default();
    format!("{seconds}.{millis:03}Z")
}
