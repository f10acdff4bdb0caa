//! Stores that fail, files that others change, and calls that are dropped.

use std::error::Error;
use std::io::ErrorKind as IoErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mongo_patterns::ErrorKind;
use mongo_patterns::archive_files::object_store::Error as StoreError;
use mongo_patterns::archive_files::object_store::local::LocalFileSystem;
use mongo_patterns::archive_files::{FileArchive, Problem};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use super::run::sales;
use support::archive::files::*;
use support::archive::sales::{AGE, current, old, sale};
use support::common::dropped_commands;

/// Writes all documents; an open transaction would let it wait.
async fn write_all(db: &TestDatabase) {
    let command = doc! {
        "update": "sales", "maxTimeMS": 4000,
        "updates": [{ "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true }],
    };
    let database = db.plain_client().database(db.database().name());
    let updated = database.run_command(command).await.unwrap();
    assert_eq!(updated.get_i32("n").unwrap(), 6);
}

#[tokio::test]
async fn a_store_that_fails_changes_nothing() {
    testkit::run(async |db| {
        let good = archive(db).await;
        plant(db, sales(0..6)).await;
        for error in [
            IoErrorKind::StorageFull,
            IoErrorKind::ReadOnlyFilesystem,
            IoErrorKind::TimedOut,
        ] {
            let full = Gate {
                fails_with: Some(error),
                ..Gate::default()
            };
            full.open.add_permits(10);
            let full = builder_in(db, full.store()).build().unwrap();
            let refused = full.run().chunk(3).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::FileStore);
            assert!(refused.to_string().contains(&error.to_string()), "{refused}");
            assert_eq!(both(db).await, [Vec::from_iter(0..6), vec![]]);
            write_all(db).await;
            assert_tidy(db, &good).await;
        }
        // A prefix that is a file. The text has no path, and nothing of the documents.
        std::fs::write(directory(db).join("secret"), "").unwrap();
        let store = Arc::new(LocalFileSystem::new_with_prefix(directory(db)).unwrap());
        let bad = FileArchive::<Document>::builder(current(db), store, "secret");
        let refused = bad
            .age_field("date")
            .older_than(AGE)
            .keep(doc! { "retentionPolicy": "permanent" })
            .build()
            .unwrap()
            .run()
            .await
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::FileStore);
        let text = format!("{refused} {refused:?} {:?}", refused.source().unwrap());
        assert!(!text.contains("secret") && !text.contains("Claire"), "{text}");
        let cause = refused.as_driver_error().unwrap().get_custom::<StoreError>().unwrap();
        assert!(cause.to_string().contains("secret"), "{cause}");
        assert_eq!(both(db).await, [Vec::from_iter(0..6), vec![]]);
        write_all(db).await;
        std::fs::remove_file(directory(db).join("secret")).unwrap();
        assert_eq!(good.run().await.unwrap().documents, 6);
        assert_eq!(sum(db).await, 4 * 6);
        assert_tidy(db, &good).await;
    })
    .await;
}

/// While the store hangs, documents are written as ever. The file is discarded then, and the documents are archived as they are.
#[tokio::test]
async fn a_store_that_hangs_locks_no_document() {
    testkit::run(async |db| {
        let gate = Gate::default();
        let archive = archive_in(db, gate.store()).await;
        plant(db, sales(0..6)).await;
        let write = async {
            gate.begun().await;
            write_all(db).await;
            gate.open.add_permits(10);
        };
        let (moved, ()) = tokio::join!(archive.run().into_future(), write);
        assert_eq!(moved.unwrap().documents, 6);
        assert_eq!((both(db).await, sum(db).await), ([vec![], Vec::from_iter(0..6)], 6));
        assert_tidy(db, &archive).await;
    })
    .await;
}

/// A call that is dropped while it writes a file: the write goes to its end, and then the next run deletes the file.
#[tokio::test]
async fn a_dropped_run_leaves_nothing_after_the_next_one() {
    testkit::run(async |db| {
        let gate = Gate::default();
        let archive = archive_in(db, gate.store()).await;
        plant(db, sales(0..6)).await;
        tokio::select! {
            biased;
            () = gate.begun() => {}
            moved = archive.run().into_future() => panic!("{moved:?}"),
        }
        dropped_commands(db).await;
        assert_eq!(both(db).await, [Vec::from_iter(0..6), vec![]]);
        write_all(db).await;
        let open = async {
            // The next run waits for the write of the first one.
            gate.open.add_permits(10);
        };
        let (moved, ()) = tokio::join!(archive.run().into_future(), open);
        assert_eq!(moved.unwrap().documents, 6);
        assert_eq!(sum(db).await, 6);
        assert_tidy(db, &archive).await;
    })
    .await;
}

/// Another process takes one for dead that is only slow.
#[tokio::test]
async fn a_slow_process_writes_again_when_another_one_has_discarded_its_file() {
    testkit::run(async |db| {
        let gate = Gate::default();
        let slow = archive_in(db, gate.store()).await;
        let other = builder(db).build().unwrap();
        plant(db, sales(0..6)).await;
        let overtake = async {
            gate.begun().await;
            // Nothing is old enough for it, but it deletes what is left.
            assert_eq!(other.run().before(old(0)).await.unwrap().documents, 0);
            assert_eq!(records(db).await, [] as [Document; 0]);
            gate.open.add_permits(10);
        };
        let (moved, ()) = tokio::join!(slow.run().into_future(), overtake);
        assert_eq!(moved.unwrap().documents, 6);
        assert_eq!(both(db).await, [vec![], Vec::from_iter(0..6)]);
        assert_tidy(db, &slow).await;
    })
    .await;
}

#[tokio::test]
async fn a_store_that_refuses_deletions_is_tried_again() {
    testkit::run(async |db| {
        let gate = Gate::default();
        gate.open.add_permits(100);
        let archive = archive_in(db, gate.store()).await;
        plant(db, sales(0..6)).await;
        archive.run().chunk(3).await.unwrap();
        let files = archive.files(..).await.unwrap();
        gate.refuses_deletions.store(true, Ordering::Relaxed);
        // It has restored the documents.
        assert_eq!(archive.restore_file(&files[0].name).await.unwrap().documents, 3);
        assert_eq!(
            archive.delete_before(old(9)).await.unwrap_err().kind(),
            ErrorKind::FileStore
        );
        assert_eq!(both(db).await, [Vec::from_iter(0..3), Vec::from_iter(3..6)]);
        let expected = [(files[0].name.clone(), Problem::Unfinished)];
        assert_eq!(problems(&archive).await, expected);
        gate.refuses_deletions.store(false, Ordering::Relaxed);
        assert_eq!(archive.delete_before(old(9)).await.unwrap().documents, 3);
        assert_eq!(both(db).await, [Vec::from_iter(0..3), vec![]]);
        assert_tidy(db, &archive).await;
    })
    .await;
}

#[tokio::test]
async fn a_damaged_file_is_found_and_not_restored() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, sales(0..6)).await;
        archive.run().await.unwrap();
        let name = archive.files(..).await.unwrap().pop().unwrap().name;
        let path = directory(db).join(&name);
        let content = std::fs::read(&path).unwrap();
        let mut changed = content.clone();
        *changed.last_mut().unwrap() ^= 1;
        let longer = [&content[..], &content[..]].concat();
        let others = zstd::encode_all(&mongodb::bson::serialize_to_vec(&sale(7, old(0))).unwrap()[..], 0).unwrap();
        let damages = [
            (None, Problem::Missing),
            (Some(&content[..content.len() / 2]), Problem::Changed),
            (Some(&content[..0]), Problem::Changed),
            (Some(&changed[..]), Problem::Changed),
            (Some(&longer[..]), Problem::Changed),
            (Some(&others[..]), Problem::Changed),
            (Some(b"text"), Problem::Changed),
        ];
        for (damage, problem) in damages {
            match damage {
                None => std::fs::remove_file(&path).unwrap(),
                Some(damage) => std::fs::write(&path, damage).unwrap(),
            }
            for error in [
                archive.restore_file(&name).await.unwrap_err(),
                archive.read(&name).await.unwrap_err(),
            ] {
                let id = error.document_id().and_then(|id| id.as_str());
                assert_eq!((error.kind(), id), (ErrorKind::Corrupt, Some(&*name)), "{error:?}");
            }
            assert_eq!(problems(&archive).await, [(name.clone(), problem)]);
            assert_eq!(archive.run().await.unwrap().documents, 0);
            assert_eq!(current(db).count_documents(doc! {}).await.unwrap(), 0);
            assert_eq!(records(db).await.len(), 1);
            std::fs::write(&path, &content).unwrap();
        }
        // A record that says another number, with the digest of its file.
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        let is_file = doc! { "_id.kind": "archive_file" };
        let seven = doc! { "$set": { "documents": 7 } };
        catalog.update_one(is_file.clone(), seven).await.unwrap();
        assert_eq!(problems(&archive).await, [(name.clone(), Problem::Changed)]);
        let six = doc! { "$set": { "documents": 6 } };
        catalog.update_one(is_file.clone(), six).await.unwrap();
        assert_eq!(archive.restore_file(&name).await.unwrap().documents, 6);
        // A record that lacks a field.
        archive.run().await.unwrap();
        let without = doc! { "$unset": { "sha256": 1 } };
        catalog.update_one(is_file, without).await.unwrap();
        assert_eq!(archive.files(..).await.unwrap_err().kind(), ErrorKind::Corrupt);
    })
    .await;
}

/// A store that returns less than was written.
#[tokio::test]
async fn a_truncated_read_is_found_and_changes_nothing() {
    testkit::run(async |db| {
        let gate = Gate::default();
        gate.open.add_permits(1);
        let archive = archive_in(db, gate.store()).await;
        plant(db, sales(0..6)).await;
        archive.run().await.unwrap();
        let name = archive.files(..).await.unwrap().pop().unwrap().name;
        gate.truncates_reads.store(true, Ordering::Relaxed);
        assert_eq!(archive.read(&name).await.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(
            archive.restore_file(&name).await.unwrap_err().kind(),
            ErrorKind::Corrupt
        );
        assert_eq!(problems(&archive).await, [(name.clone(), Problem::Changed)]);
        assert_eq!(both(db).await, [vec![], Vec::from_iter(0..6)]);
        gate.truncates_reads.store(false, Ordering::Relaxed);
        assert_eq!(archive.restore_file(&name).await.unwrap().documents, 6);
        assert_tidy(db, &archive).await;
    })
    .await;
}

/// A catalog that was deleted, or is that of a backup: the files are reported, and no call deletes them.
#[tokio::test]
async fn a_file_without_a_record_is_reported_and_stays() {
    testkit::run(async |db| {
        let archive = archive(db).await;
        plant(db, sales(0..6)).await;
        archive.run().chunk(3).await.unwrap();
        let names = listed(db);
        db.plain_collection::<Document>("mongo_patterns").drop().await.unwrap();
        mongo_patterns::Repository::ensure_indexes(&archive).await.unwrap();
        std::fs::write(directory(db).join("notes.txt"), "").unwrap();
        let mut expected: Vec<_> = names.iter().map(|name| (name.clone(), Problem::Unknown)).collect();
        expected.push(("notes.txt".to_owned(), Problem::Unknown));
        assert_eq!(problems(&archive).await, expected);
        current(db).insert_one(sale(9, old(0))).await.unwrap();
        assert_eq!(archive.run().await.unwrap().documents, 1);
        assert_eq!(archive.delete_before(old(100)).await.unwrap().documents, 1);
        assert_eq!(problems(&archive).await, expected);
        for name in names {
            assert_eq!(content(db, &name).len(), 3);
        }
    })
    .await;
}
