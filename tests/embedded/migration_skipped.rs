//! Migrations of references with invalid children, by a filter, and at a rate.

use std::time::{Duration, Instant};

use mongo_patterns::ErrorKind;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use crate::common::support::all;
use crate::embedded::migration::*;
use crate::embedded::support::{Patrons, stored};

/// Children with an id of their own.
fn with_ids(db: &TestDatabase) -> Patrons {
    let patrons = EmbeddedRepository::builder(db.collection::<Document>("patron"));
    patrons.children_field("addresses").child_id_field("n").build().unwrap()
}

fn list(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("skipped")
}

/// Two patrons with three addresses each, and two without a valid id. Returns the expected children.
async fn fill(db: &TestDatabase) -> Vec<Document> {
    stored(db)
        .insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }])
        .await
        .unwrap();
    let valid = (0..6).map(|n| doc! { "_id": n, "patron_id": 1 + n % 2, "n": n });
    let invalid = [
        doc! { "_id": 90, "patron_id": 1 },
        doc! { "_id": 91, "patron_id": 2, "n": [1] },
    ];
    addresses(db).insert_many(valid.chain(invalid)).await.unwrap();
    index_reference(db).await;
    let child = |n: i32| doc! { "_id": n, "n": n };
    vec![
        doc! { "_id": 1, "addresses": [child(0), child(2), child(4)] },
        doc! { "_id": 2, "addresses": [child(1), child(3), child(5)] },
    ]
}

#[tokio::test]
async fn invalid_children_are_skipped_listed_and_counted() {
    testkit::run(async |db| {
        let expected = fill(db).await;
        let patrons = with_ids(db);
        let (source, skipped) = (
            db.collection::<Document>("address"),
            db.collection::<Document>("skipped"),
        );
        let migration = || patrons.migrate_from_references(&source, "patron_id").chunk(1);
        let refused = migration().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidItemId);
        let plan = migration().skip_invalid(&skipped).plan().await.unwrap();
        assert_eq!((plan.migrated.children, plan.migrated.skipped.get("child_id")), (6, 2));
        assert_eq!(all(&list(db)).await, Vec::<Document>::new());
        let source_before = all(&addresses(db)).await;
        let before = all(&stored(db)).await;
        let mut interrupted = 0;
        for command in ["aggregate", "delete"] {
            for skip in 0.. {
                stored(db).delete_many(doc! {}).await.unwrap();
                stored(db).insert_many(&before).await.unwrap();
                list(db).delete_many(doc! {}).await.unwrap();
                let fault = FailPoint::on(&[command]).times(1).skip(skip).error_code(11_601);
                let fault = fault.enable(db).await;
                let first = migration().skip_invalid(&skipped).await;
                fault.disable().await;
                interrupted += u32::from(first.is_err());
                let migrated = migration().skip_invalid(&skipped).await.unwrap();
                assert_eq!(
                    (migrated.parents, migrated.children, migrated.skipped.total()),
                    (2, 6, 2)
                );
                assert_eq!(all(&stored(db)).await, expected);
                let listed = all(&list(db)).await;
                let ids: Vec<i32> = listed.iter().map(|listed| listed.get_i32("_id").unwrap()).collect();
                assert_eq!(ids, [90, 91]);
                assert!(
                    listed
                        .iter()
                        .all(|listed| listed.get_str("reason").unwrap() == "child_id")
                );
                if first.is_ok() {
                    break;
                }
            }
        }
        assert!(interrupted >= 8, "{interrupted}");
        assert_eq!(all(&addresses(db)).await, source_before);
        for name in ["address", "patron"] {
            let list = db.collection::<Document>(name);
            let refused = migration().skip_invalid(&list).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        }
        let wrong = EmbeddedRepository::<Document, Document>::builder(db.collection::<Document>("patron"));
        let wrong = wrong
            .children_field("addresses")
            .child_id_field("nosuch")
            .build()
            .unwrap();
        let refused = wrong
            .migrate_from_references(&source, "patron_id")
            .skip_invalid(&skipped)
            .await;
        assert!(refused.is_err());
        assert_eq!(all(&stored(db)).await, expected);
    })
    .await;
}

#[tokio::test]
async fn a_filter_selects_children_and_another_one_is_refused() {
    testkit::run(async |db| {
        fill(db).await;
        let patrons = with_ids(db);
        let source = addresses(db);
        let with = |filter: Document| patrons.migrate_from_references(&source, "patron_id").filter(filter);
        let before = all(&stored(db)).await;
        let refused = with(doc! { "n": { "$nosuch": 1 } }).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert_eq!(all(&stored(db)).await, before);
        let migrated = with(doc! { "_id": { "$lt": 4 } }).await.unwrap();
        assert_eq!((migrated.parents, migrated.children), (2, 4));
        let child = |n: i32| doc! { "_id": n, "n": n };
        let expected = [
            doc! { "_id": 1, "addresses": [child(0), child(2)] },
            doc! { "_id": 2, "addresses": [child(1), child(3)] },
        ];
        assert_eq!(all(&stored(db)).await, expected);
        let refused = with(doc! { "_id": { "$lt": 3 } }).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TargetNotEmpty);
        with(doc! { "_id": { "$lt": 4 } }).await.unwrap();
        assert_eq!(all(&stored(db)).await, expected);
    })
    .await;
}

/// The time is a lower bound, which no load of the machine can break.
#[tokio::test]
async fn a_rate_is_kept_by_pauses_between_chunks() {
    testkit::run(async |db| {
        fill(db).await;
        addresses(db).delete_many(doc! { "_id": { "$gte": 90 } }).await.unwrap();
        let patrons = with_ids(db);
        let refused = patrons
            .migrate_from_references(&addresses(db), "patron_id")
            .rate(0)
            .await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
        let start = Instant::now();
        patrons
            .migrate_from_references(&addresses(db), "patron_id")
            .rate(2)
            .await
            .unwrap();
        assert!(start.elapsed() >= Duration::from_secs(1));
        let back = db.plain_collection::<Document>("back");
        let start = Instant::now();
        patrons.migrate_to_references(&back, "patron_id").rate(6).await.unwrap();
        assert!(start.elapsed() >= Duration::from_secs(1));
        assert_eq!(all(&back).await.len(), 6);
    })
    .await;
}
