//! Migrations of a flat collection with invalid documents, by a filter, and at a rate.

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::Migrated;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use crate::bucket::migration::*;
use support::bucket::migration::*;
use support::common::*;

const INTERRUPTED: i32 = 11_601;

async fn fill_mixed(db: &TestDatabase) -> (Vec<Document>, Vec<Document>) {
    let keys: Vec<Bson> = (0..4).map(Bson::Int32).collect();
    let (valid, invalid) = (documents(&keys, 25), invalid());
    let bad = invalid.iter().map(|(document, _)| document.clone());
    fill(db, &bad.chain(valid.iter().cloned()).collect::<Vec<_>>()).await;
    let listed = invalid.iter().map(|(document, reason)| {
        doc! { "_id": document.get("_id"), "reason": reason, "source": "flat", "target": "trades" }
    });
    (valid, listed.collect())
}

fn list(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("skipped")
}

/// Returns the listed documents, without the id of the run.
async fn listed(db: &TestDatabase) -> Vec<Document> {
    let mut listed = all(&list(db)).await;
    assert!(listed.iter_mut().all(|document| document.remove("run").is_some()));
    listed
}

async fn migrate(db: &TestDatabase) -> mongo_patterns::Result<Migrated> {
    let trades = histories::<u32>(db).build().unwrap();
    let flat = db.collection::<Document>("flat");
    let list = db.collection::<Document>("skipped");
    trades.migrate_from_flat(&flat).chunk(30).skip_invalid(&list).await
}

#[tokio::test]
async fn documents_that_were_corrected_leave_the_list() {
    testkit::run(async |db| {
        let (_, skipped) = fill_mixed(db).await;
        migrate(db).await.unwrap();
        plain(db).drop().await.unwrap();
        let correction = doc! { "$set": { "customerId": 2 } };
        flat(db).update_one(doc! { "_id": 100000 }, correction).await.unwrap();
        let migrated = migrate(db).await.unwrap();
        assert_eq!((migrated.items, migrated.skipped.total()), (101, 7));
        assert_eq!(listed(db).await, skipped[1..]);
    })
    .await;
}

#[tokio::test]
async fn invalid_documents_are_found_with_a_filter_that_the_shell_takes() {
    testkit::run(async |db| {
        let (_, skipped) = fill_mixed(db).await;
        let trades = histories::<u32>(db).build().unwrap();
        let found = trades.migrate_from_flat(&flat(db)).find_invalid(None).await.unwrap();
        let counts = (found.checked, found.invalid.get("key"), found.invalid.get("time"));
        assert_eq!(counts, (108, Some(6), Some(2)));
        let matched = flat(db).count_documents(found.filter).await.unwrap();
        assert_eq!(matched, skipped.len() as u64);
        let sampled = trades.migrate_from_flat(&flat(db)).find_invalid(Some(50));
        assert_eq!(sampled.await.unwrap().checked, 50);
        nothing_is_stored(db).await;
    })
    .await;
}

#[tokio::test]
async fn a_filter_selects_documents_and_another_one_is_refused_when_it_resumes() {
    testkit::run(async |db| {
        let keys: Vec<Bson> = (0..6).map(Bson::Int32).collect();
        let documents = documents(&keys, 25);
        fill(db, &documents).await;
        let trades = histories::<u32>(db).build().unwrap();
        let source = db.collection::<Document>("flat");
        let of = |filter: Document| trades.migrate_from_flat(&source).chunk(30).filter(filter);
        let filter = doc! { "customerId": { "$in": [1, 3, 4] } };
        // The second chunk fails.
        let fault = FailPoint::on(&["update"]).skip(3).error_code(INTERRUPTED);
        let fault = fault.enable(db).await;
        of(filter.clone()).await.unwrap_err();
        fault.disable().await;
        let before = all(&plain(db)).await;
        assert!(!before.is_empty());
        for other in [doc! {}, doc! { "customerId": 987_654 }] {
            let refused = of(other).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            let text = refused.to_string();
            assert!(
                text.contains("its `filter` is another one") && !text.contains("987654"),
                "{text}"
            );
        }
        assert_eq!(all(&plain(db)).await, before);
        let migrated = of(filter).await.unwrap();
        assert_eq!((migrated.keys, migrated.items, migrated.resumed), (3, 75, true));
        let chosen = |document: &&Document| [1, 3, 4].contains(&document.get_i32("customerId").unwrap());
        let chosen: Vec<Document> = documents.iter().filter(chosen).cloned().collect();
        assert!(stored(&plain(db)).await == buckets::<u32>(&chosen, "customerId", 10, false));
        // The other keys are another migration.
        let rest = doc! { "customerId": { "$nin": [1, 3, 4] } };
        let rest = of(rest).allow_non_empty_target().await.unwrap();
        assert_eq!((rest.keys, rest.items), (3, 75));
        assert!(stored(&plain(db)).await == buckets::<u32>(&documents, "customerId", 10, false));
    })
    .await;
}
