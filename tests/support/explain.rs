//! One reader of the replies to `explain`, for all servers, engines and topologies.

use mongo_patterns_testkit::{RecordedCommand, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

/// What the server did for a recorded command.
#[derive(Debug, PartialEq)]
pub struct Examined {
    pub keys: i64,
    pub documents: i64,
    pub index: String,
    /// Empty where the server does not report them: for a point read, since MongoDB 8.0.
    pub bounds: Document,
}

/// Explains the last command that was sent.
pub async fn explain_last(db: &TestDatabase) -> Examined {
    explain(db, &db.recorder().last().unwrap()).await
}

/// Explains a command that was sent.
pub async fn explain(db: &TestDatabase, command: &RecordedCommand) -> Examined {
    examined(&explained(db, command).await)
}

/// Returns the server's reply.
pub async fn explained(db: &TestDatabase, command: &RecordedCommand) -> Document {
    let command = doc! { "explain": command.essence(), "verbosity": "executionStats" };
    let plain = db.plain_client().database(db.database().name());
    plain.run_command(command).await.unwrap()
}

/// Reads a reply.
pub fn examined(explained: &Document) -> Examined {
    let [keys, documents] = totals(explained, ["totalKeysExamined", "totalDocsExamined"]);
    // The stages of the execution, which some engines report without the index; then the plan.
    let parts = ["executionStages", "winningPlan"];
    let found = |field: &str| parts.iter().find_map(|part| first_in(explained, part, field));
    let index = found("indexName").unwrap_or_else(|| panic!("no index: {explained}"));
    let bounds = found("indexBounds").and_then(Bson::as_document);
    Examined {
        keys,
        documents,
        index: index.as_str().unwrap().to_owned(),
        bounds: bounds.cloned().unwrap_or_default(),
    }
}

/// Returns whether a stage of the plan is this one, such as `COLLSCAN`.
pub fn has_stage(explained: &Document, stage: &str) -> bool {
    let mut found = false;
    walk(explained, &mut |node| {
        found |= node.get_str("stage").is_ok_and(|name| name == stage);
        true
    });
    found
}

/// Returns how many documents the server read.
pub fn documents_examined(explained: &Document) -> i64 {
    let [documents] = totals(explained, ["totalDocsExamined"]);
    documents
}

/// Returns the first value of a field at any depth.
pub fn first<'d>(document: &'d Document, field: &str) -> Option<&'d Bson> {
    let mut found = None;
    walk(document, &mut |node| {
        found = found.or_else(|| node.get(field));
        found.is_none()
    });
    found
}

/// Returns the first value of a field below another one.
fn first_in<'d>(document: &'d Document, part: &str, field: &str) -> Option<&'d Bson> {
    let mut found = None;
    walk(document, &mut |node| {
        let inner = node.get_document(part).ok();
        found = found.or_else(|| inner.and_then(|inner| first(inner, field)));
        found.is_none()
    });
    found
}

/// Adds up numbers of the outermost statistics: of the command, or of each shard of an aggregation.
fn totals<const N: usize>(explained: &Document, fields: [&str; N]) -> [i64; N] {
    let mut totals = [0; N];
    let mut found = false;
    walk(explained, &mut |node| {
        let Ok(statistics) = node.get_document("executionStats") else {
            return true;
        };
        found = true;
        for (total, field) in totals.iter_mut().zip(fields) {
            *total += match statistics.get(field) {
                Some(Bson::Int32(number)) => i64::from(*number),
                Some(Bson::Int64(number)) => *number,
                other => panic!("{field} is {other:?}"),
            };
        }
        false
    });
    assert!(found, "no statistics: {explained}");
    totals
}

/// Visits a document and those in it, from the outside, until `visit` returns `false` for one. Leaves out the plans that
/// were not executed.
fn walk<'d>(document: &'d Document, visit: &mut impl FnMut(&'d Document) -> bool) {
    if !visit(document) {
        return;
    }
    for (field, value) in document {
        if ["rejectedPlans", "allPlansExecution"].contains(&field.as_str()) {
            continue;
        }
        match value {
            Bson::Document(inner) => walk(inner, visit),
            Bson::Array(values) => values
                .iter()
                .filter_map(Bson::as_document)
                .for_each(|inner| walk(inner, visit)),
            _ => {}
        }
    }
}
