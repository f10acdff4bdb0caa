//! Moves of several processes to another cluster, of which one takes the place of another one.

use std::time::Duration;

use mongo_patterns::{ErrorKind, Repository, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::doc;
use mongodb::bson::oid::ObjectId;

use super::clusters::{catalog, last_move, leave, problems};
use super::sales::*;
use support::archive::sales::*;
use support::common::{drop_all, ends, pause};

/// Waits until this number of moves write the entry.
async fn writes_of_the_entry(db: &TestDatabase, moves: usize) {
    let is_write = |name: &&String| *name == "findAndModify";
    ends("the wait for moves", async {
        while db.recorder().names().iter().filter(is_write).count() < moves {
            pause().await;
        }
    })
    .await;
}

/// Another process begins a move between two commands of one.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_move_that_another_one_takes_the_place_of_is_tried_again() {
    testkit::run(async |db| {
        elsewhere(db).await;
        for (attempts, expected) in [(1, Err(ErrorKind::Contention)), (5, Ok(2))] {
            plant(db, (0..2).map(|id| sale(id, old(0)))).await;
            let policy = RetryPolicy::default().with_max_attempts(attempts);
            let archive = builder(db).another_cluster().retry(policy).build().unwrap();
            let other = async {
                let attempt = doc! { "$set": { "attempt": ObjectId::new() } };
                let entry = doc! { "_id.kind": "archive" };
                assert_eq!(catalog(db).update_one(entry, attempt).await.unwrap().matched_count, 1);
            };
            // The update that begins the move in the archive's catalog.
            let begins = ("update", Duration::from_secs(2));
            let (moved, ()) = beside_blocked(db, begins, archive.run(), other).await;
            let moved = moved.map(|moved| moved.documents);
            assert_eq!(moved.map_err(|error| error.kind()), expected, "{attempts}");
            let archived_ids = if expected.is_ok() { numbers(0..2) } else { vec![] };
            assert_eq!(both(db).await[1], archived_ids);
        }
    })
    .await;
}

/// A process that is paused before its transaction ends: a run waits for it, and keeps the copy if it commits.
#[tokio::test]
async fn a_run_waits_for_the_transaction_of_a_paused_process() {
    testkit::run(async |db| {
        for commits in [false, true] {
            drop_all(db).await;
            let archive = elsewhere(db).await;
            plant(db, [sale(9, old(0))]).await;
            archive.run().await.unwrap();
            plant(db, [sale(1, old(0))]).await;
            let (id, last) = (ObjectId::new(), last_move(db).await);
            let mut session = db.plain_client().start_session().await.unwrap();
            session.start_transaction().await.unwrap();
            let decide = doc! { "$set": { "move": id } };
            let entry = catalog(db);
            let decide = entry.update_one(doc! { "_id.kind": "archive" }, decide);
            assert_eq!(decide.session(&mut session).await.unwrap().matched_count, 1);
            let hot = current(db);
            hot.delete_one(doc! { "_id": 1 }).session(&mut session).await.unwrap();
            let mut copy = sale(1, old(0));
            copy.insert("copy", true);
            archived(db).insert_one(copy).await.unwrap();
            leave(db, id, last, false, numbers([1])).await;

            db.recorder().clear();
            let end = async {
                writes_of_the_entry(db, 1).await;
                match commits {
                    true => session.commit_transaction().await.unwrap(),
                    false => session.abort_transaction().await.unwrap(),
                }
            };
            let (moved, ()) = tokio::join!(archive.run().into_future(), end);
            assert_eq!(moved.unwrap().documents, u64::from(!commits));
            assert_eq!(both(db).await, [vec![], numbers([1])]);
            let copies = archived(db).count_documents(doc! { "copy": true }).await.unwrap();
            assert_eq!(copies, u64::from(commits));
            assert_eq!(problems(&archive).await, []);
        }
    })
    .await;
}

/// Two processes find what a third one has left. One of them is late.
#[tokio::test]
async fn a_move_that_another_call_has_ended_is_no_conflict() {
    testkit::run(async |db| {
        let policy = RetryPolicy::default().with_max_attempts(10);
        let [one, other] = [(); 2].map(|()| builder(db).another_cluster().retry(policy.clone()).build().unwrap());
        one.ensure_indexes().await.unwrap();
        plant(db, [sale(9, old(0))]).await;
        one.run().await.unwrap();
        archived(db).insert_one(sale(1, old(0))).await.unwrap();
        leave(db, ObjectId::new(), last_move(db).await, false, numbers([1])).await;
        // Both have read the record when they write the entry.
        let mut session = db.plain_client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let (entry, lock) = (catalog(db), doc! { "$set": { "attempt": ObjectId::new() } });
        let lock = entry.update_one(doc! { "_id.kind": "archive" }, lock);
        lock.session(&mut session).await.unwrap();
        db.recorder().clear();
        let end = async {
            writes_of_the_entry(db, 2).await;
            session.abort_transaction().await.unwrap();
        };
        let (first, second, ()) = tokio::join!(one.run().into_future(), other.run().into_future(), end);
        first.unwrap();
        second.unwrap();
        assert_eq!(both(db).await, [vec![], numbers([9])]);
    })
    .await;
}

/// Between two commands of a run, other processes end the last move, and one makes a further move.
#[tokio::test]
async fn a_further_move_is_no_sign_of_other_catalogs() {
    testkit::run(async |db| {
        let archive = elsewhere(db).await;
        plant(db, [sale(9, old(0))]).await;
        archive.run().await.unwrap();
        leave(db, ObjectId::new(), last_move(db).await, false, numbers([1])).await;
        let mut session = db.plain_client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let (entry, further) = (catalog(db), ObjectId::new());
        let decide = entry.update_one(doc! { "_id.kind": "archive" }, doc! { "$set": { "move": further } });
        decide.session(&mut session).await.unwrap();
        db.recorder().clear();
        let others = async {
            writes_of_the_entry(db, 1).await;
            leave(db, further, None, false, numbers([2])).await;
            session.commit_transaction().await.unwrap();
        };
        let (run, ()) = tokio::join!(archive.run().into_future(), others);
        run.unwrap();
        assert_eq!(both(db).await, [vec![], numbers([9])]);
    })
    .await;
}
