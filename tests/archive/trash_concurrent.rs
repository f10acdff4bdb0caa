//! Deletions beside other clients.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use mongo_patterns_testkit::{self as testkit, FailPoint};
use mongodb::bson::{Bson, Document, doc};

use super::sales::numbers;
use super::users::*;
use crate::common::pace::Pace;
use crate::common::support::all;

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_deletions_finds_the_document() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        for id in 0..10 {
            plant(db, [user(id)]).await;
            let deletions = (0..8).map(|_| trash.delete(id).into_future());
            let deleted = try_join_all(deletions).await.unwrap();
            assert_eq!(deleted.iter().filter(|deleted| deleted.found).count(), 1);
            let restores = (0..8).map(|_| trash.restore(id).into_future());
            let restored = try_join_all(restores).await.unwrap();
            assert_eq!(restored.iter().filter(|restored| !restored.already_there).count(), 1);
            assert_eq!(both(db).await, [numbers(0..=id), vec![]]);
        }
    })
    .await;
}

/// Another client writes the document after the deletion has begun: its update is in the entry. A change of type only counts
/// too.
#[tokio::test]
async fn a_write_before_the_deletion_commits_is_kept_or_waits() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        for written in [Bson::Int32(2), Bson::Double(1.0), Bson::Int64(1)] {
            let mut stored = user(1);
            stored.insert("n", 1);
            plant(db, [stored]).await;
            // The snapshot of the transaction is that of its first command, which waits for another client's transaction.
            let mut session = db.plain_client().start_session().await.unwrap();
            session.start_transaction().await.unwrap();
            let users = users(db);
            let update = users.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": written.clone() } });
            update.session(&mut session).await.unwrap();
            let deletion = trash.delete(1).into_future();
            let commit = async {
                db.recorder().sent(1).await;
                session.commit_transaction().await.unwrap();
            };
            let (deleted, ()) = tokio::join!(deletion, commit);
            assert!(deleted.unwrap().found);
            let found = entries(db).find_one(doc! {}).await.unwrap().unwrap();
            assert_eq!(found.get_document("document").unwrap().get("n"), Some(&written));
            entries(db).delete_many(doc! {}).await.unwrap();
        }
        // A write after the deletion waits for its commit, and finds no document.
        plant(db, [user(1)]).await;
        let fault = FailPoint::on(&["insert"])
            .times(1)
            .block(Duration::from_secs(1))
            .enable(db)
            .await;
        let write = async {
            assert!(fault.met(db, Duration::from_secs(10)).await);
            let updated = users(db)
                .update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 5 } })
                .await;
            updated.unwrap().matched_count
        };
        let (deleted, matched) = tokio::join!(trash.delete(1).into_future(), write);
        fault.disable().await;
        assert!(deleted.unwrap().found);
        assert_eq!(matched, 0);
        assert_eq!(both(db).await, [vec![], numbers([1])]);
    })
    .await;
}

/// Deletions, restores and writers at once: each document is once in one of the collections, with all acknowledged writes.
#[tokio::test(flavor = "multi_thread")]
async fn no_write_is_lost_beside_deletions_and_restores() {
    testkit::run(async |db| {
        const USERS: i32 = 12;
        let trash = trash(db).await;
        plant(db, (0..USERS).map(user)).await;
        let (pace, acknowledged) = (Pace::of(0), AtomicU64::new(0));
        let writers = (0..4).map(|writer| {
            let (pace, users, acknowledged) = (pace.clone(), users(db), &acknowledged);
            async move {
                for n in writer.. {
                    if !pace.next().await {
                        break;
                    }
                    let write = users.update_one(doc! { "_id": n * 7 % USERS }, doc! { "$inc": { "n": 1 } });
                    acknowledged.fetch_add(write.await.unwrap().matched_count, Ordering::Relaxed);
                }
            }
        });
        let moves = async {
            let work = async {
                let mut rounds = 0;
                while rounds < 6 || acknowledged.load(Ordering::Relaxed) <= 20 {
                    rounds += 1;
                    try_join_all((0..USERS).step_by(2).map(|id| trash.delete(id).into_future()))
                        .await
                        .unwrap();
                    try_join_all((0..USERS).step_by(4).map(|id| trash.restore(id).into_future()))
                        .await
                        .unwrap();
                }
            };
            pace.beside(db, 2, work).await;
            pace.end();
        };
        tokio::join!(join_all(writers), moves);
        let deleted: Vec<Document> = all(&entries(db)).await;
        let deleted = deleted
            .iter()
            .map(|entry| entry.get_document("document").unwrap().clone());
        let stored: Vec<Document> = all(&users(db)).await.into_iter().chain(deleted).collect();
        let mut ids: Vec<i32> = stored.iter().map(|one| one.get_i32("_id").unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..USERS).collect::<Vec<_>>());
        let written: i32 = stored.iter().map(|one| one.get_i32("n").unwrap_or(0)).sum();
        let acknowledged = acknowledged.into_inner();
        assert_eq!(u64::try_from(written).unwrap(), acknowledged);
    })
    .await;
}
