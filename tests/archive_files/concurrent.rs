//! Runs of an archive in files beside writers, and beside each other.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use mongo_patterns::archive_files::ArchiveFile;
use mongo_patterns::{ErrorKind, Repository, RetryPolicy};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use super::run::{numbers, sales};
use crate::archive::sales::{beside_blocked, beside_writers, count_in, counted};
use support::archive::files::{archive, assert_tidy, both, builder, filed, plant, sum};
use support::archive::sales::{current, new};
use support::common::all;

/// Another client writes a document between the read of the chunk and its deletion. A change of type only counts too.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_write_after_the_file_was_written_is_kept() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let n = |value: Bson| doc! { "$set": { "n": value } };
        for (command, written) in [
            ("insert", Bson::Double(1.0)),
            ("update", Bson::Int64(1)),
            ("delete", Bson::Int32(3)),
        ] {
            archive.delete_before(new(0)).await.unwrap();
            plant(db, sales(0..3)).await;
            current(db).update_many(doc! {}, n(1.into())).await.unwrap();
            let sales = current(db);
            let write = sales.update_one(doc! { "_id": 1 }, n(written.clone())).into_future();
            let blocked = (command, Duration::from_secs(2));
            let (moved, updated) = beside_blocked(db, blocked, archive.run(), write).await;
            let counts = (moved.unwrap().documents, updated.unwrap().matched_count);
            assert_eq!(counts, (3, 1), "{command}");
            let filed = filed(db).await;
            let found = filed.iter().find(|one| one.get("_id") == Some(&1.into())).unwrap();
            assert_eq!((found.get("n"), filed.len()), (Some(&written), 3), "{command}");
            assert_tidy(db, &archive).await;
        }
        // A document that is no longer old when the transaction comes to it stays.
        archive.delete_before(new(0)).await.unwrap();
        plant(db, sales(0..4)).await;
        let write = async {
            let update = async |id: i32, set: Document| {
                let updated = current(db).update_one(doc! { "_id": id }, doc! { "$set": set }).await;
                updated.unwrap();
            };
            update(1, doc! { "date": new(0) }).await;
            update(2, doc! { "retentionPolicy": "permanent" }).await;
            current(db).delete_one(doc! { "_id": 3 }).await.unwrap();
        };
        let inserts = ("insert", Duration::from_secs(2));
        let (moved, ()) = beside_blocked(db, inserts, archive.run(), write).await;
        assert_eq!(moved.unwrap().documents, 1);
        assert_eq!(both(db).await, [numbers([1, 2]), numbers([0])]);
        assert_tidy(db, &archive).await;
    })
    .await;
}

/// An open transaction holds a document: it is left, and the others of its chunk move.
#[tokio::test]
async fn a_document_that_others_hold_does_not_stop_a_run() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, sales(0..16)).await;
        let mut session = db.plain_client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let sales = current(db);
        let held = sales.update_one(doc! { "_id": 5 }, doc! { "$set": { "n": 1 } });
        held.session(&mut session).await.unwrap();
        let moved = archive.run().await.unwrap();
        assert_eq!((moved.documents, moved.busy), (15, 1));
        assert_tidy(db, &archive).await;
        session.commit_transaction().await.unwrap();
        assert_eq!(archive.run().await.unwrap().documents, 1);
        assert_eq!(sum(db).await, 1);
    })
    .await;
}

/// However many they are: the walk ends after the time of the policy.
#[tokio::test]
async fn documents_that_others_hold_hold_up_no_other_one() {
    testkit::run(async |db| {
        let policy = RetryPolicy::default().with_max_elapsed(Duration::from_millis(20));
        let archive = builder(db).retry(policy).build().unwrap();
        archive.ensure_indexes().await.unwrap();
        plant(db, sales(0..60)).await;
        let mut session = db.plain_client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let sales = current(db);
        let held = sales.update_many(doc! { "_id": { "$lt": 20 } }, doc! { "$set": { "n": 1 } });
        held.session(&mut session).await.unwrap();
        let moved = archive.run().await.unwrap();
        session.abort_transaction().await.unwrap();
        assert_eq!((moved.documents, moved.busy), (40, 20));
        assert_eq!(both(db).await, [numbers(0..20), numbers(20..60)]);
        assert_tidy(db, &archive).await;
    })
    .await;
}

/// Writers, two processes that archive, and restores: each document is once in the collection or in a file, with all
/// acknowledged writes.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_beside_writers() {
    const DOCUMENTS: i32 = 30;
    testkit::run(async |db| {
        let archive = archive(db).await;
        let other = builder(db).build().unwrap();
        plant(db, sales(0..DOCUMENTS)).await;
        let round = async || {
            let runs = [
                archive.run().chunk(10).into_future(),
                other.run().chunk(10).into_future(),
            ];
            try_join_all(runs).await.unwrap();
            for file in archive.files(..).await.unwrap().into_iter().step_by(2) {
                archive.restore_file(file.name).await.unwrap();
            }
        };
        let write = async |id: i32, _: i32| count_in(&current(db), id).await;
        let acknowledged = beside_writers(db, (DOCUMENTS, 20), write, round).await;
        let stored = [all(&current(db)).await, filed(db).await].concat();
        assert_eq!(counted(DOCUMENTS, &stored), acknowledged);
        archive.run().await.unwrap();
        assert_tidy(db, &archive).await;
    })
    .await;
}

/// Two processes move all documents at once: each document moves once, and no run fails.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_at_once_move_each_document_once() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        let other = builder(db).build().unwrap();
        plant(db, sales(0..40)).await;
        let runs = [archive.run().chunk(4).into_future(), other.run().chunk(4).into_future()];
        let moved = try_join_all(runs).await.unwrap();
        assert!(moved.iter().map(|moved| moved.documents + moved.busy).sum::<u64>() >= 40);
        archive.run().await.unwrap();
        assert_eq!(both(db).await, [vec![], numbers(0..40)]);
        assert_tidy(db, &archive).await;
        let name = |file: ArchiveFile| file.name;
        let names: Vec<String> = archive.files(..).await.unwrap().into_iter().map(name).collect();
        // Both restore and delete the same files.
        for name in &names {
            let results = join_all([
                archive.restore_file(name).into_future(),
                other.restore_file(name).into_future(),
            ])
            .await;
            let done = results.iter().filter(|result| result.is_ok()).count();
            assert_eq!(done, 1, "{results:?}");
            let refused = results.into_iter().find_map(Result::err).unwrap();
            assert!(
                matches!(refused.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists),
                "{refused:?}"
            );
        }
        assert_eq!(both(db).await, [numbers(0..40), vec![]]);
    })
    .await;
}
