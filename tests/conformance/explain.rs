//! The reader of plans reads the replies of all servers, engines and topologies.

use mongodb::bson::{Document, doc};
use support::explain::*;

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
    let stage = doc! { "stage": "EXPRESS_IXSCAN", "keyPattern": "{ _id: 1 }", "indexName": "_id_", "keysExamined": 1 };
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
    let plan =
        doc! { "stage": "FETCH", "inputStage": { "stage": "IXSCAN", "indexName": "open", "indexBounds": bounds() } };
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
    let shard =
        |name: &str| doc! { "shardName": name, "executionStages": { "stage": "SHARDING_FILTER", "inputStage": &scan } };
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
