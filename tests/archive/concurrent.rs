//! Runs beside writers.

use std::time::Duration;

use futures::future::try_join_all;
use mongo_patterns::archive::Archive;
use mongo_patterns::{Repository, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::IndexOptions;
use mongodb::{ClientSession, IndexModel};

use super::sales::*;
use support::archive::sales::*;
use support::common::{all, until};

/// Another client writes a document after the chunk has read it: its update is in the archived document. A change of type alone
/// counts too.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_write_between_the_read_and_the_deletion_is_kept() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let n = |value: Bson| doc! { "$set": { "n": value } };
        for written in [Bson::Double(1.0), Bson::Int64(1)] {
            plant(db, (0..3).map(|id| sale(id, old(0)))).await;
            current(db).update_many(doc! {}, n(1.into())).await.unwrap();
            let sales = current(db);
            let write = sales.update_one(doc! { "_id": 1 }, n(written.clone())).into_future();
            let deletes = ("delete", Duration::from_secs(2));
            let (moved, updated) = beside_blocked(db, deletes, archive.run(), write).await;
            assert_eq!((moved.unwrap().documents, updated.unwrap().matched_count), (3, 1));
            let found = archived(db).find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
            assert_eq!(found.get("n"), Some(&written));
        }
    })
    .await;
}

/// A document that is no longer old when the chunk comes to it stays.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_document_that_no_longer_matches_stays() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let sales = (0..4).map(|id| sale(id, old(0)));
        plant(db, sales.clone()).await;
        archive.run().await.unwrap();
        let sent = db.recorder().commands();
        let read = sent
            .iter()
            .position(|sent| sent.command.contains_key("startTransaction"));
        plant(db, sales).await;
        // The transaction's read, after the walk.
        let fault = FailPoint::on(&[]).times(1).block(Duration::from_secs(2));
        let fault = fault.plan(db, read.unwrap());
        let write = async {
            assert!(fault.met(db, Duration::from_secs(10)).await);
            let update = async |id: i32, set: Document| {
                let updated = current(db).update_one(doc! { "_id": id }, doc! { "$set": set }).await;
                updated.unwrap();
            };
            update(1, doc! { "date": new(0) }).await;
            update(2, doc! { "retentionPolicy": "permanent" }).await;
            current(db).delete_one(doc! { "_id": 3 }).await.unwrap();
        };
        let (moved, ()) = tokio::join!(archive.run(), write);
        fault.end();
        assert_eq!(moved.unwrap().documents, 1);
        assert_eq!(both(db).await, [numbers([1, 2]), numbers([0])]);
    })
    .await;
}

/// Locks documents in a transaction that another client has open.
async fn held(db: &TestDatabase, filter: Document) -> ClientSession {
    let mut session = db.plain_client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let sales = current(db);
    let held = sales.update_many(filter, doc! { "$set": { "n": 1 } });
    held.session(&mut session).await.unwrap();
    session
}

async fn with_policy(db: &TestDatabase, time: Duration) -> Archive<Document> {
    let policy = RetryPolicy::default().with_max_elapsed(time);
    let archive = builder(db).retry(policy).build().unwrap();
    archive.ensure_indexes().await.unwrap();
    archive
}

/// An open transaction holds a document: it is left, and the others of its chunk move.
#[tokio::test]
async fn a_document_that_others_hold_does_not_stop_a_run() {
    testkit::run(async |db| {
        let archive = with_policy(db, Duration::from_secs(4)).await;
        plant(db, (0..16).map(|id| sale(id, old(0)))).await;
        let mut session = held(db, doc! { "_id": 5 }).await;
        let moved = archive.run().await.unwrap();
        assert_eq!((moved.documents, moved.busy, moved.conflicts), (15, 1, 0));
        session.commit_transaction().await.unwrap();
        assert_eq!(archive.run().await.unwrap().documents, 1);
        assert_eq!(archived(db).count_documents(doc! { "n": 1 }).await.unwrap(), 1);
    })
    .await;
}

/// However many they are: the walk ends after the time of the policy. Others are refused by a unique index.
#[tokio::test]
async fn documents_that_others_hold_hold_up_no_other_one() {
    testkit::run(async |db| {
        let archive = with_policy(db, Duration::from_millis(50)).await;
        let unique = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! { "e": 1 }).options(unique).build();
        archived(db).create_index(index).await.unwrap();
        for refused in [false, true] {
            let sales = (0..120).map(|id| {
                let mut sale = sale(id, old(0));
                sale.insert("e", if refused && id % 30 == 0 { 0 } else { id });
                sale
            });
            plant(db, sales).await;
            let mut session = held(db, doc! { "_id": { "$lt": 40 } }).await;
            let moved = archive.run().await;
            match refused {
                false => assert_eq!(moved.map(|moved| (moved.documents, moved.busy)).unwrap(), (80, 40)),
                true => assert_eq!(moved.map(|moved| (moved.conflicts, moved.busy)).unwrap(), (1, 40)),
            }
            // One of those with the same value moves.
            let left = if refused {
                numbers((0..40).chain([90]))
            } else {
                numbers(0..40)
            };
            session.abort_transaction().await.unwrap();
            assert_eq!(both(db).await[0], left);
        }
    })
    .await;
}

/// As after a killed process, whose transaction the server ends: the run waits for it.
#[tokio::test]
async fn documents_that_others_hold_for_a_while_are_archived() {
    testkit::run(async |db| {
        let archive = with_policy(db, Duration::from_secs(60)).await;
        plant(db, (0..16).map(|id| sale(id, old(0)))).await;
        let mut session = held(db, doc! { "_id": { "$mod": [3, 0] } }).await;
        let ends = async {
            until("the others are archived", async || {
                archived(db).count_documents(doc! {}).await.unwrap() == 10
            })
            .await;
            session.abort_transaction().await.unwrap();
        };
        let (moved, ()) = tokio::join!(archive.run().into_future(), ends);
        let moved = moved.unwrap();
        assert_eq!((moved.documents, moved.busy), (16, 0));
    })
    .await;
}

/// However many they are, and into however many parts their chunk is halved.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_run_spends_the_time_of_the_policy_once() {
    testkit::run(async |db| {
        let archive = with_policy(db, Duration::from_millis(200)).await;
        plant(db, (0..400).map(|id| sale(id, old(0)))).await;
        let mut session = held(db, doc! {}).await;
        let moved = archive.run().await.unwrap();
        assert_eq!((moved.documents, moved.busy), (0, 400));
        // Each part and each document begins once: 400, 200, 100, .. and a few attempts of the
        // policy. A run that spends its time on each document begins several for each.
        let sent = db.recorder().commands();
        let begun = sent.iter().filter(|sent| sent.command.contains_key("startTransaction"));
        assert!(begun.count() < 1_200);
        session.abort_transaction().await.unwrap();
        assert_eq!(archive.run().await.unwrap().documents, 400);
    })
    .await;
}

async fn write(db: &TestDatabase, archive: &Archive<Document>, id: i32) -> bool {
    let is_counted = count_in(&current(db), id).await;
    if !is_counted {
        // A reader finds it. It can be restored and archived again between the three reads of a call.
        let mut found = false;
        for _ in 0..5 {
            found = found || archive.get(id).await.unwrap().is_some();
        }
        assert!(found);
    }
    is_counted
}

/// Runs, restores and writers at once: each document is once in one of the collections, with all acknowledged writes.
#[tokio::test(flavor = "multi_thread")]
async fn no_write_is_lost_beside_runs_and_restores() {
    testkit::run(no_write_is_lost).await;
}

async fn no_write_is_lost(db: &TestDatabase) {
    const DOCUMENTS: i32 = 60;
    let archive = &archive(db).await;
    plant(db, (0..DOCUMENTS).map(|id| sale(id, old(0)))).await;
    let round = async || {
        let run = || archive.run().chunk(10).into_future();
        try_join_all([run(), run()]).await.unwrap();
        let even = doc! { "_id": { "$mod": [2, 0] } };
        archive.restore_many(even).chunk(10).await.unwrap();
    };
    let write = async |id: i32, _: i32| write(db, archive, id).await;
    let acknowledged = beside_writers(db, (DOCUMENTS, 20), write, round).await;
    let stored = [all(&current(db)).await, all(&archived(db)).await].concat();
    assert_eq!(counted(DOCUMENTS, &stored), acknowledged);
}
