//! Inserts of many documents, each with its first revision.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::IndexOptions;

use support::common::{all, contents};
use support::history::*;

#[tokio::test]
async fn many_documents_are_stored_as_many_inserts_would() {
    testkit::run(async |db| {
        let policies = ready(db, builder(db.database()).change_fields(["by"])).await;
        policies.insert(&policy(0)).await.unwrap();
        // 7 is deleted, and 8 twice.
        for (id, deletions) in [(7, 1), (8, 2)] {
            for _ in 0..deletions {
                policies.insert(&policy(id)).await.unwrap();
                policies.delete(id).await.unwrap();
            }
        }
        db.recorder().clear();
        let many: Vec<Document> = (1..=150).map(policy).collect();
        let recorded = policies.insert_many(&many).with(doc! { "by": "$ann" }).await.unwrap();
        // Five for any number of documents.
        assert_eq!(
            db.recorder().names(),
            ["hello", "aggregate", "insert", "insert", "commitTransaction"]
        );
        assert_eq!(recorded.len(), many.len());
        for (id, revision) in [(1, 1), (7, 3), (8, 5), (150, 1)] {
            let recorded = &recorded[id as usize - 1];
            assert_eq!(recorded.revision, revision, "{id}");
            let now = policies.get(id).await.unwrap().unwrap();
            assert_eq!((now.revision, now.time), (revision, Some(recorded.time)));
            let copy = policies.at(id, revision).await.unwrap().unwrap();
            assert_eq!(without_id(&now.document), without_id(&copy.document.unwrap()));
            assert_eq!(copy.change, doc! { "by": "$ann" });
            let fields: Vec<&str> = now.document.keys().map(String::as_str).collect();
            assert_eq!(fields[..4], ["_id", "policyId", "customerName", "itemsInsured"]);
            assert_eq!(fields[4..], ["revision", "dateSet", "by"]);
            if let Some(before) = policies.at(id, revision - 1).await.unwrap() {
                assert!(before.time < recorded.time);
            }
        }
        let now = DateTime::now().timestamp_millis();
        assert!((now - recorded[0].time.timestamp_millis()).abs() < 600_000);
        assert_eq!(findings(&policies).await, []);
        // They continue as others.
        assert_eq!(policies.update(7, push("watch")).await.unwrap().revision, 4);
        assert_eq!(policies.insert_many(&[]).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_refused_document_stores_none() {
    testkit::run(async |db| {
        let policies = policies(db).await;
        policies.insert(&policy(1)).await.unwrap();
        let by_email = mongodb::IndexModel::builder()
            .keys(doc! { "policyId": 1, "email": 1 })
            .options(IndexOptions::builder().unique(true).build())
            .build();
        current(db).create_index(by_email).await.unwrap();
        let before = contents(db).await;
        let mut used = policy(4);
        used.insert("_id", all(&current(db)).await[0].get("_id"));
        for (last, kind) in [
            (policy(1), ErrorKind::AlreadyExists),
            // An id is compared by its value.
            (policy(2_i64), ErrorKind::AlreadyExists),
            (policy(2.0), ErrorKind::AlreadyExists),
            (used, ErrorKind::DuplicateKey),
            (policy(Bson::Null), ErrorKind::InvalidArgument),
            (doc! { "policyId": 5, "deleted": true }, ErrorKind::InvalidArgument),
            (doc! { "policyId": 5, "t": "x".repeat(16 << 20) }, ErrorKind::TooLarge),
        ] {
            let refused = policies.insert_many(&[policy(2), policy(3), last]).await.unwrap_err();
            assert_eq!((refused.kind(), refused.stored_count()), (kind, None), "{refused}");
            assert_eq!(contents(db).await, before);
        }
    })
    .await;
}

/// Inserts of several processes, of which each id belongs to one.
#[tokio::test]
async fn concurrent_batches_store_each_document_once() {
    testkit::run(async |db| {
        let mut processes = Vec::new();
        for _ in 0..4 {
            processes.push(policies(db).await);
        }
        let batches = processes.iter().map(|policies| async {
            let mut stored = 0;
            for first in 0..8 {
                let batch: Vec<Document> = (0..5).map(|n| policy(first * 5 + n)).collect();
                match policies.insert_many(&batch).await {
                    Ok(recorded) => stored += recorded.len(),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
                }
            }
            stored
        });
        let stored: usize = futures::future::join_all(batches).await.iter().sum();
        assert_eq!(stored, 40);
        for id in 0..40 {
            assert_eq!(numbers(db, id).await, [1]);
        }
        assert_eq!(findings(&processes[0]).await, []);
    })
    .await;
}
