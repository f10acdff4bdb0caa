//! Prints the history of a document.

use mongo_patterns_history::{Revision, RevisionToken};
use mongodb::bson::{Bson, DateTime, Document};
use serde_json::{Map, Value, json};

use super::Work;
use crate::args::{LogOptions, ShowOptions};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Summary, printable, to_json};
use crate::selection::id;
use crate::shell;

pub(super) const NO_DOCUMENT: &str = "there is no document with this id";

/// What `show` prints.
#[derive(Debug, PartialEq)]
enum Wanted {
    Current,
    Revision(u64),
}

/// Parses an id with the number of a revision after the last `@`. Other text after an `@` belongs to the id.
fn id_and_revision(text: &str) -> Result<(Bson, Wanted), Failure> {
    let revision = text.rsplit_once('@');
    Ok(
        match revision.and_then(|(before, number)| Some((before, number.parse().ok()?))) {
            Some((before, number)) => (id(before)?, Wanted::Revision(number)),
            None => (id(text)?, Wanted::Current),
        },
    )
}

impl Work<'_> {
    pub(super) async fn log(&self, options: &LogOptions) -> Outcome {
        let output = self.context.output;
        let token = options
            .before
            .map(|revision| revision.to_string().parse::<RevisionToken>());
        let revisions = self.documents.revisions(id(&options.document)?).newest_first();
        let page = revisions.limit(options.limit).after(token.transpose()?).page().await?;
        for revision in &page.items {
            let deleted = if revision.document.is_some() { "" } else { "  deleted" };
            let (number, time) = (revision.revision, time(revision.time));
            let change = revision.change.iter().map(|(field, value)| {
                let value = shell::pretty(value);
                format!("  {}: {value}", printable(field))
            });
            output.text(&format!("{number:>6}  {time}{deleted}{}", change.collect::<String>()))?;
            output.object(&Value::Object(head(revision)))?;
        }
        if page.items.is_empty() && options.before.is_none() {
            return Err(missing(NO_DOCUMENT));
        }
        let mut summary = Summary::of(&self.documents, "log").row("revisions", page.items.len());
        if let Some(next) = page.next {
            summary = summary.row("more_with_before", next.to_string());
        }
        output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    pub(super) async fn show(&self, options: &ShowOptions) -> Outcome {
        let (document, revision) = match &options.as_of {
            Some(text) => {
                let time = parsed("--as-of", text)?;
                (None, self.documents.as_of(id(&options.document)?, time).await?)
            }
            None => match id_and_revision(&options.document)? {
                (id, Wanted::Revision(number)) => (None, self.documents.at(id, number).await?),
                (id, Wanted::Current) => {
                    let current = self.documents.get(id).await?;
                    (current.map(|current| current.document), None)
                }
            },
        };
        let output = self.context.output;
        if let Some(document) = document {
            output.text(&shell::pretty(&document.clone().into()))?;
            output.object(&json!({ "type": "document", "document": to_json(&document.into()) }))?;
            return Ok(Exit::Success);
        }
        let Some(revision) = revision else {
            return Err(missing(
                "there is no such document or revision: see its revisions with `history log`",
            ));
        };
        let text = format!("// revision {}, {}", revision.revision, time(revision.time));
        match &revision.document {
            Some(document) => output.text(&format!("{text}\n{}", shell::pretty(&document.clone().into())))?,
            None => output.text(&format!("{text}, deleted"))?,
        }
        let mut object = head(&revision);
        let document = revision.document.map(|document| to_json(&document.into()));
        object.insert("document".into(), document.into());
        output.object(&Value::Object(object))?;
        Ok(Exit::Success)
    }

    pub(super) async fn diff(&self, document: &str, from: u64, to: u64) -> Outcome {
        let output = self.context.output;
        let diff = self.documents.diff(id(document)?, from, to).await?;
        for change in &diff.changes {
            let side = |value: &Option<Bson>| value.as_ref().map_or_else(|| "nothing".to_owned(), shell::pretty);
            let (before, after) = (side(&change.before), side(&change.after));
            output.text(&format!("{}: {before} -> {after}", printable(&change.path)))?;
            let mut object = Map::new();
            object.insert("type".into(), "change".into());
            object.insert("path".into(), change.path.clone().into());
            for (name, value) in [("before", &change.before), ("after", &change.after)] {
                if let Some(value) = value {
                    object.insert(name.into(), to_json(value));
                }
            }
            output.object(&Value::Object(object))?;
        }
        let summary = Summary::of(&self.documents, "diff").row("changes", diff.changes.len());
        output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }
}

fn head(revision: &Revision<Document>) -> Map<String, Value> {
    let mut head = Map::new();
    head.insert("type".into(), "revision".into());
    head.insert("revision".into(), revision.revision.into());
    head.insert("time".into(), to_json(&revision.time.into()));
    head.insert("deleted".into(), revision.document.is_none().into());
    if !revision.change.is_empty() {
        head.insert("change".into(), to_json(&revision.change.clone().into()));
    }
    head
}

fn time(time: DateTime) -> String {
    time.try_to_rfc3339_string()
        .unwrap_or_else(|_| format!("{} ms since 1970", time.timestamp_millis()))
}

/// Parses the time of an option.
pub(super) fn parsed(option: &str, text: &str) -> Result<DateTime, Failure> {
    let invalid = |_| Failure::usage(format!("{option} is not a time such as 2026-11-23T12:00:00Z"));
    DateTime::parse_rfc3339_str(text).map_err(invalid)
}

pub(super) fn missing(text: &str) -> Failure {
    Failure::new(Exit::Findings(0), text)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::oid::ObjectId;

    use super::*;

    #[test]
    fn an_id_can_have_a_revision_after_it() {
        let id_and_revision = |text: &str| super::id_and_revision(text).unwrap();
        assert_eq!(id_and_revision("5@3"), (Bson::Int32(5), Wanted::Revision(3)));
        assert_eq!(id_and_revision("5"), (Bson::Int32(5), Wanted::Current));
        assert_eq!(id_and_revision("-5"), (Bson::Int64(-5), Wanted::Current));
        assert_eq!(
            id_and_revision("ann@example.org"),
            ("ann@example.org".into(), Wanted::Current)
        );
        assert_eq!(
            id_and_revision("ann@example.org@2"),
            ("ann@example.org".into(), Wanted::Revision(2))
        );
        assert_eq!(id_and_revision("\"5\"@1"), ("5".into(), Wanted::Revision(1)));
        // Valid JSON that is no value of Extended JSON is not taken for a string.
        for text in [
            r#"{"$oid": "5"}"#,
            r#"{"$date": "2024-01-01"}@3"#,
            "99999999999999999999",
        ] {
            assert!(super::id_and_revision(text).is_err(), "{text}");
        }
        let oid = ObjectId::from_bytes([7; 12]);
        let text = format!("{{\"$oid\": \"{}\"}}@12", oid.to_hex());
        assert_eq!(id_and_revision(&text), (oid.into(), Wanted::Revision(12)));
    }
}
