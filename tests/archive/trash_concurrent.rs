//! Deletions beside other clients.

use std::time::Duration;

use futures::future::try_join_all;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, doc};

use super::sales::{beside_blocked, beside_writers, count_in, counted};
use super::users::*;
use support::archive::sales::numbers;
use support::archive::users::*;
use support::common::all;

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_deletions_finds_the_document() {
    testkit::run(async |db| {
        let trash = trash(db).await;
        for id in 0..4 {
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
        let users = users(db);
        let write = users.update_one(doc! { "_id": 1 }, doc! { "$set": { "n": 5 } });
        let inserts = ("insert", Duration::from_secs(1));
        let (deleted, updated) = beside_blocked(db, inserts, trash.delete(1), write.into_future()).await;
        assert!(deleted.unwrap().found);
        assert_eq!(updated.unwrap().matched_count, 0);
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
        let round = async || {
            let deletions = (0..USERS).step_by(2).map(|id| trash.delete(id).into_future());
            try_join_all(deletions).await.unwrap();
            let restores = (0..USERS).step_by(4).map(|id| trash.restore(id).into_future());
            try_join_all(restores).await.unwrap();
        };
        let write = async |id: i32, _: i32| count_in(&users(db), id).await;
        let acknowledged = beside_writers(db, (USERS, 20), write, round).await;
        let mut stored = all(&users(db)).await;
        let deleted = all(&entries(db)).await.into_iter();
        stored.extend(deleted.map(|entry| entry.get_document("document").unwrap().clone()));
        assert_eq!(counted(USERS, &stored), acknowledged);
    })
    .await;
}
