//! Runs beside writers.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use mongo_patterns::archive::Archive;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use super::sales::*;
use crate::common::pace::Pace;
use crate::common::support::all;

/// Another client writes a document after the chunk has read it: its update is in the archived document. A change of type
/// only counts too.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_write_between_the_read_and_the_deletion_is_kept() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let n = |value: Bson| doc! { "$set": { "n": value } };
        for (stored, written) in [(1, Bson::Int32(2)), (1, Bson::Double(1.0)), (1, Bson::Int64(1))] {
            plant(db, (0..3).map(|id| sale(id, old(0)))).await;
            current(db).update_many(doc! {}, n(stored.into())).await.unwrap();
            let fault = FailPoint::on(&["delete"])
                .times(1)
                .block(Duration::from_secs(2))
                .enable(db)
                .await;
            let write = async {
                assert!(fault.met(db, Duration::from_secs(10)).await);
                current(db)
                    .update_one(doc! { "_id": 1 }, n(written.clone()))
                    .await
                    .unwrap();
            };
            let (moved, ()) = tokio::join!(archive.run(), write);
            fault.disable().await;
            assert_eq!(moved.unwrap().documents, 3);
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

/// An open transaction holds a document: it is left, and the others of its chunk move.
#[tokio::test]
async fn a_document_that_others_hold_does_not_stop_a_run() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, (0..16).map(|id| sale(id, old(0)))).await;
        let mut session = db.plain_client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let sales = current(db);
        let held = sales.update_one(doc! { "_id": 5 }, doc! { "$set": { "n": 1 } });
        held.session(&mut session).await.unwrap();
        let moved = archive.run().await.unwrap();
        assert_eq!((moved.documents, moved.busy, moved.conflicts), (15, 1, 0));
        session.commit_transaction().await.unwrap();
        assert_eq!(archive.run().await.unwrap().documents, 1);
        assert_eq!(archived(db).count_documents(doc! { "n": 1 }).await.unwrap(), 1);
    })
    .await;
}

async fn write(db: &TestDatabase, archive: &Archive<Document>, id: i32) -> bool {
    let updated = current(db)
        .update_one(doc! { "_id": id }, doc! { "$inc": { "n": 1 } })
        .await
        .unwrap();
    if updated.matched_count == 0 {
        // A reader finds it. It can be restored and archived again between the three reads of a call.
        let mut found = false;
        for _ in 0..5 {
            found = found || archive.get(id).await.unwrap().is_some();
        }
        assert!(found);
    }
    updated.matched_count > 0
}

/// Runs, restores and writers at once: each document is once in one of the collections, with all acknowledged writes.
#[tokio::test(flavor = "multi_thread")]
async fn no_write_is_lost_beside_runs_and_restores() {
    testkit::run(async |db| no_write_is_lost(db, &archive(db).await).await).await;
}

pub(super) async fn no_write_is_lost(db: &TestDatabase, archive: &Archive<Document>) {
    const DOCUMENTS: i32 = 60;
    plant(db, (0..DOCUMENTS).map(|id| sale(id, old(0)))).await;
    let (pace, acknowledged) = (Pace::of(0), AtomicI64::new(0));
    let writers = (0..4).map(|writer| {
        let (pace, acknowledged) = (pace.clone(), &acknowledged);
        async move {
            for n in writer.. {
                if !pace.next().await {
                    break;
                }
                let is_acknowledged = write(db, archive, n * 7 % DOCUMENTS).await;
                acknowledged.fetch_add(i64::from(is_acknowledged), Ordering::Relaxed);
            }
        }
    });
    let moves = async {
        let work = async {
            let mut rounds = 0;
            while rounds < 6 || acknowledged.load(Ordering::Relaxed) <= 20 {
                rounds += 1;
                let run = || archive.run().chunk(10).into_future();
                try_join_all([run(), run()]).await.unwrap();
                archive
                    .restore_many(doc! { "_id": { "$mod": [2, 0] } })
                    .chunk(10)
                    .await
                    .unwrap();
            }
        };
        pace.beside(db, 2, work).await;
        pace.end();
    };
    tokio::join!(join_all(writers), moves);
    let (hot, cold) = (all(&current(db)).await, all(&archived(db)).await);
    let ids: HashSet<i32> = hot.iter().chain(&cold).map(|one| one.get_i32("_id").unwrap()).collect();
    assert_eq!((ids.len(), hot.len() + cold.len()), (60, 60));
    let n = |one: &Document| i64::from(one.get_i32("n").unwrap_or(0));
    let stored: i64 = hot.iter().chain(&cold).map(n).sum();
    let acknowledged = acknowledged.into_inner();
    assert_eq!(stored, acknowledged);
}
