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

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Document {
        doc! { "customerId": ["[123, 123]"] }
    }

    fn assert_examined(explained: &Document, keys: i64, documents: i64, index: &str, bounds: Document) {
        let index = index.to_owned();
        let expected = Examined {
            keys,
            documents,
            index,
            bounds,
        };
        assert_eq!(examined(explained), expected, "{explained}");
    }

    /// The classic engine.
    #[test]
    fn a_plan_is_read_and_rejected_plans_are_not() {
        let rejected = doc! { "stage": "IXSCAN", "indexName": "other", "indexBounds": {} };
        let scan = doc! { "stage": "IXSCAN", "indexName": "open", "indexBounds": bounds() };
        let find = doc! {
            "queryPlanner": {
                "rejectedPlans": [{ "stage": "FETCH", "inputStage": rejected }],
                "winningPlan": { "stage": "FETCH", "inputStage": &scan },
            },
            "executionStats": {
                "totalKeysExamined": 2,
                "totalDocsExamined": 1_i64,
                "executionStages": { "stage": "LIMIT", "inputStage": { "stage": "FETCH", "inputStage": scan } },
            },
        };
        assert_examined(&find, 2, 1, "open", bounds());
        assert!(has_stage(&find, "FETCH") && !has_stage(&find, "COLLSCAN"));
        let aggregate = doc! { "stages": [{ "$cursor": find, "nReturned": 1 }, { "$group": { "_id": null } }] };
        assert_examined(&aggregate, 2, 1, "open", bounds());
    }

    /// MongoDB 8.0, for an equality on `_id`: no bounds.
    #[test]
    fn a_point_read_has_no_bounds() {
        let stage =
            doc! { "stage": "EXPRESS_IXSCAN", "keyPattern": "{ _id: 1 }", "indexName": "_id_", "keysExamined": 1 };
        let explained = doc! {
            "explainVersion": "1",
            "queryPlanner": { "winningPlan": { "isCached": false, "stage": "EXPRESS_IXSCAN", "keyPattern": "{ _id: 1 }", "indexName": "_id_" }, "rejectedPlans": [] },
            "executionStats": { "totalKeysExamined": 1, "totalDocsExamined": 1, "executionStages": stage },
        };
        assert_examined(&explained, 1, 1, "_id_", Document::new());
    }

    /// The slot-based engine: its stages nest by other fields, and the plan has the bounds.
    #[test]
    fn stages_of_the_slot_based_engine_are_read() {
        let seek = doc! { "stage": "ixseek", "indexName": "open", "keysExamined": 1 };
        let stages = doc! {
            "stage": "nlj",
            "outerStage": { "stage": "project", "inputStage": seek },
            "innerStage": { "stage": "limit", "inputStage": { "stage": "seek" } },
        };
        let plan = doc! { "stage": "FETCH", "inputStage": { "stage": "IXSCAN", "indexName": "open", "indexBounds": bounds() } };
        let explained = doc! {
            "explainVersion": "2",
            "queryPlanner": { "winningPlan": { "queryPlan": plan, "slotBasedPlan": { "stages": "[2] nlj" } }, "rejectedPlans": [] },
            "executionStats": { "totalKeysExamined": 1, "totalDocsExamined": 1, "executionStages": stages },
        };
        assert_examined(&explained, 1, 1, "open", bounds());
    }

    /// A router: the totals of a find, and the statistics of each shard of an aggregation.
    #[test]
    fn shards_are_read_and_counted_once() {
        let scan = doc! { "stage": "IXSCAN", "indexName": "open", "indexBounds": bounds() };
        let shard = |name: &str| doc! { "shardName": name, "executionStages": { "stage": "SHARDING_FILTER", "inputStage": &scan } };
        let find = doc! {
            "queryPlanner": { "winningPlan": { "stage": "SHARD_MERGE", "shards": [{ "shardName": "s1", "winningPlan": &scan }] } },
            "executionStats": {
                "totalKeysExamined": 5,
                "totalDocsExamined": 4,
                "executionStages": { "stage": "SHARD_MERGE", "shards": [shard("s1"), shard("s2")] },
            },
        };
        assert_examined(&find, 5, 4, "open", bounds());
        let statistics = |keys: i32| doc! { "executionStats": { "totalKeysExamined": keys, "totalDocsExamined": 1, "executionStages": &scan } };
        let aggregate = doc! {
            "splitPipeline": { "shardsPart": [], "mergerPart": [] },
            "shards": { "s1": { "stages": [{ "$cursor": statistics(2) }] }, "s2": statistics(3) },
        };
        assert_examined(&aggregate, 5, 2, "open", bounds());
    }

    #[test]
    #[should_panic(expected = "no index")]
    fn a_plan_without_an_index_fails_the_test() {
        examined(&doc! { "executionStats": {
            "totalKeysExamined": 0,
            "totalDocsExamined": 9,
            "executionStages": { "stage": "COLLSCAN" },
        } });
    }
}
