//! Migrations that are interrupted, and run again.

use std::process::{Command, Stdio};

use mongo_patterns::bucket::Migrated;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_core::Planned;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use crate::bucket::migration::*;
use support::bucket::migration::*;
use support::common::*;

const ITEMS: u64 = 6 * 15;

fn six_keys() -> Vec<Document> {
    documents(&[0, 1, 2, 3, 4, 5].map(Bson::Int32), 15)
}

fn trades(db: &TestDatabase) -> Histories<u32> {
    histories::<u32>(db).build().unwrap()
}

/// Matches the records of migrations in the catalog.
fn of_migration() -> Document {
    doc! { "_id.kind": "migration" }
}

fn records(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("mongo_patterns")
}

/// Migrates there, with the client that fail points affect.
async fn migrate(db: &TestDatabase) -> Result<Migrated, Error> {
    let source = db.collection::<Document>("flat");
    trades(db).migrate_from_flat(&source).chunk(40).await
}

/// Drops the buckets, and the record of their migration.
async fn undo(db: &TestDatabase) {
    plain(db).drop().await.unwrap();
    records(db).drop().await.unwrap();
}

/// Fills the flat collection, and migrates it.
async fn begin(db: &TestDatabase) {
    fill(db, &six_keys()).await;
    trades(db).migrate_from_flat(&flat(db)).await.unwrap();
}

/// Checks that all documents are migrated, and that the record says so.
async fn check(db: &TestDatabase, migrated: Migrated) {
    assert_eq!((migrated.keys, migrated.items, migrated.documents), (6, ITEMS, 12));
    assert!(stored(&plain(db)).await == buckets::<u32>(&six_keys(), "customerId", 10, false));
    let mut records = all(&records(db)).await;
    records.retain(|record| record.get_document("_id").unwrap().get_str("kind").unwrap() == "migration");
    let is_finished = |record: &Document| record.contains_key("finished") && !record.contains_key("last");
    assert!(records.iter().all(is_finished));
}

#[tokio::test]
async fn a_finished_migration_is_recognized() {
    testkit::run(async |db| {
        begin(db).await;
        db.recorder().clear();
        let migrated = migrate(db).await.unwrap();
        assert!(migrated.resumed);
        check(db, migrated).await;
        let sent = db.recorder().names();
        assert_eq!(sent, ["find", "find", "aggregate"], "its record, and a count");

        // Later writes of others do not make it another migration.
        let later = doc! { "n": 15, "date": at(SECOND + 60) };
        trades(db).append(&3, &later).await.unwrap();
        let refused = assert_refused(migrate(db).await, ErrorKind::TargetNotEmpty);
        assert!(
            refused.to_string().contains("has finished, and 1 of 6 keys"),
            "{refused}"
        );
        assert_eq!(trades(db).counts(&3).await.unwrap().items, 16);
        // The source gets the item too.
        let added = doc! { "customerId": 3, "date": at(SECOND + 60) };
        flat(db).insert_one(&added).await.unwrap();
        assert!(migrate(db).await.unwrap().resumed);
        flat(db).delete_one(added).await.unwrap();

        plain(db).drop().await.unwrap();
        let migrated = migrate(db).await.unwrap();
        assert!(!migrated.resumed, "an empty target is filled again");
        check(db, migrated).await;
    })
    .await;
}

/// Interrupts a migration after its first chunk, of three keys.
async fn interrupt(db: &TestDatabase) {
    undo(db).await;
    // The finds of the record, of the settings before and after they are stored, and of the first chunk.
    let fault = FailPoint::on(&["find"]).skip(4).error_code(11_601).enable(db).await;
    migrate(db).await.unwrap_err();
    fault.disable().await;
    let record = records(db).find_one(of_migration()).await.unwrap().unwrap();
    assert_eq!(record.get("last"), Some(&Bson::Int32(2)));
}

#[tokio::test]
async fn a_migration_does_not_resume_with_other_settings() {
    testkit::run(async |db| {
        begin(db).await;
        interrupt(db).await;
        let before = stored(&plain(db)).await;
        let (flat, trades) = (flat(db), trades(db));
        let smaller = histories::<u32>(db).page_size(5).build().unwrap();
        let others = [
            smaller.migrate_from_flat(&flat),
            trades.migrate_from_flat(&flat).keep_ids(),
            trades.migrate_from_flat(&flat).keep_ids().allow_non_empty_target(),
        ];
        for other in others {
            assert_refused(other.await, ErrorKind::InvalidArgument);
        }
        assert_eq!(stored(&plain(db)).await, before);

        let migrated = trades.migrate_from_flat(&flat).chunk(7).await.unwrap();
        assert!(migrated.resumed, "chunks may have another size");
        check(db, migrated).await;

        interrupt(db).await;
        plain(db).delete_many(doc! {}).await.unwrap();
        let migrated = trades.migrate_from_flat(&flat).keep_ids().await.unwrap();
        assert!(!migrated.resumed, "with an empty target the migration starts again");
        assert_eq!(migrated.items, ITEMS);
        let with_ids = buckets::<u32>(&six_keys(), "customerId", 10, true);
        assert_eq!(stored(&plain(db)).await, with_ids);
    })
    .await;
}

#[tokio::test]
async fn concurrent_appends_are_kept() {
    testkit::run(async |db| {
        begin(db).await;
        interrupt(db).await;
        // Key 0 is migrated, and a service writes too early. Its item is kept when its chunk runs again, as after an
        // interruption in the chunk, which has stored a part.
        let early = doc! { "n": 99, "date": at(SECOND + 60) };
        trades(db).append(&0, &early).await.unwrap();
        let unset = doc! { "$unset": { "last": 1 } };
        records(db).update_one(of_migration(), unset).await.unwrap();
        plain(db).delete_one(doc! { "customerId": 1 }).await.unwrap();
        let error = migrate(db).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CountMismatch, "{error:?}");
        assert!(error.to_string().contains("1 of 6 keys"), "{error}");
        assert_eq!(trades(db).counts(&0).await.unwrap().items, 16);
        let newest = trades(db).newest(&0, 1).await.unwrap();
        assert_eq!(newest[0].get("n"), Some(&Bson::Int32(99)));

        // Without that item the counts are equal, and the next call succeeds.
        let pop = doc! { "$pop": { "history": 1 }, "$inc": { "count": -1 } };
        let open = doc! { "customerId": 0, "count": { "$lt": 10 } };
        plain(db).update_one(open, pop).await.unwrap();
        let migrated = migrate(db).await.unwrap();
        assert!(migrated.resumed);
        check(db, migrated).await;
    })
    .await;
}

#[tokio::test]
async fn a_source_that_is_written_to_is_a_mismatch() {
    testkit::run(async |db| {
        begin(db).await;
        interrupt(db).await;
        let late = doc! { "_id": -1, "customerId": 0, "date": at(SECOND) };
        flat(db).insert_one(late).await.unwrap();
        for _ in 0..2 {
            assert_refused(migrate(db).await, ErrorKind::CountMismatch);
        }
        plain(db).delete_many(doc! {}).await.unwrap();
        assert_eq!(migrate(db).await.unwrap().items, ITEMS + 1);
        assert_eq!(violations(&plain(db), 10).await, []);
    })
    .await;
}

#[tokio::test]
async fn another_writer_of_a_key_is_named() {
    testkit::run(async |db| {
        begin(db).await;
        interrupt(db).await;
        let other = doc! { "n": 99, "date": at(SECOND - 60) };
        trades(db).append(&5, &other).await.unwrap();
        assert_refused(migrate(db).await, ErrorKind::DuplicateKey);
        let theirs = plain(db).count_documents(doc! { "history.n": 99 }).await.unwrap();
        assert_eq!(theirs, 1, "and the other writer's item stays");
    })
    .await;
}

/// A chunk that ran before is not inserted but merged, and a merge may take field names for paths.
#[tokio::test]
async fn field_names_are_kept_when_a_chunk_runs_again() {
    testkit::run(async |db| {
        let hostile = doc! { "_id": "3", "customerId": 3, "z": 1, "a.b": 1, "$set": { "$x": "$a" }, "a": 2 };
        let large = |key: i32| doc! { "_id": key.to_string(), "customerId": key, "text": "x".repeat(9_000_000) };
        let trades = trades(db);
        trades.ensure_indexes().await.unwrap();
        for (key, mut document) in [(1, large(1)), (2, large(2)), (3, hostile.clone())] {
            document.remove("customerId");
            let history = vec![Bson::Document(document)];
            let bucket = doc! { "_id": format!("{key}_{SECOND}"), "customerId": key, "count": 1, "history": history };
            plain(db).insert_one(bucket).await.unwrap();
        }
        for run in 0..2 {
            // The large documents come first, in a batch of their own, at which an insert of this chunk ends.
            let migrated = trades.migrate_to_flat(&flat(db)).await.unwrap();
            assert_eq!((migrated.items, migrated.resumed), (3, run == 1));
            assert_eq!(raw(&all(&flat(db)).await[2]), raw(&hostile));
            flat(db).delete_one(doc! { "_id": "3" }).await.unwrap();
            let unfinished = doc! { "$unset": { "finished": 1 } };
            records(db).update_one(of_migration(), unfinished).await.unwrap();
        }
    })
    .await;
}

/// Two concurrent calls are safe, and at least one of them succeeds.
#[tokio::test]
async fn of_two_concurrent_calls_one_continues() {
    testkit::run(async |db| {
        begin(db).await;
        let mut contended = 0;
        for _ in 0..5 {
            undo(db).await;
            let (one, other) = futures::join!(migrate(db), migrate(db));
            for error in [&one, &other].into_iter().filter_map(|outcome| outcome.as_ref().err()) {
                let race = [ErrorKind::Contention, ErrorKind::TargetNotEmpty];
                assert!(race.contains(&error.kind()), "{error:?}");
                contended += 1;
            }
            check(db, one.or(other).unwrap()).await;
        }
        assert!(contended > 0);
    })
    .await;
}

/// The comparison at the end finds that the chunks before the drop are missing.
#[tokio::test]
async fn a_target_that_is_dropped_during_a_migration_is_found_at_its_end() {
    testkit::run(async |db| {
        begin(db).await;
        undo(db).await;
        let (uri, database) = (db.server().uri().to_owned(), db.database().name().to_owned());
        let mut chunks = 0;
        let (trades, flat) = (trades(db), flat(db));
        let migration = trades.migrate_from_flat(&flat).chunk(20).on_progress(|_| {
            chunks += 1;
            if chunks != 2 {
                return;
            }
            let (uri, database) = (uri.clone(), database.clone());
            let drop = move || {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                runtime.block_on(async {
                    let client = mongodb::Client::with_uri_str(uri).await.unwrap();
                    let trades = client.database(&database).collection::<Document>("trades");
                    trades.drop().await.unwrap();
                });
            };
            std::thread::spawn(drop).join().unwrap();
        });
        let error = migration.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CountMismatch);
        assert!(
            error.to_string().contains("the target was dropped or renamed"),
            "{error}"
        );
        assert!(chunks > 2, "{chunks}");
        check(db, migrate(db).await.unwrap()).await;
    })
    .await;
}

/// The server may continue with the chunk of the killed process, while the next process runs the same chunk.
#[tokio::test]
async fn a_process_that_is_killed_in_a_chunk() {
    testkit::run(async |db| {
        let keys: Vec<Bson> = (0..200).map(Bson::Int32).collect();
        let documents = documents(&keys, 40);
        fill(db, &documents).await;
        let mut migrating = Command::new(env!("CARGO_BIN_EXE_process"))
            .args(["move-in-chunks", db.server().uri(), db.database().name(), "1000000"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while plain(db).find_one(doc! {}).await.unwrap().is_none() {
            pause().await;
        }
        migrating.kill().unwrap();
        migrating.wait().unwrap();
        let migrated = trades(db).migrate_from_flat(&flat(db)).await.unwrap();
        assert_eq!((migrated.keys, migrated.items, migrated.resumed), (200, 8_000, true));
        assert!(stored(&plain(db)).await == buckets::<u32>(&documents, "customerId", 10, false));
    })
    .await;
}

/// Returns the number of chunks that a plan migrates.
pub fn chunks_of(planned: &Planned<Migrated>) -> usize {
    let chunks = planned.commands.iter();
    chunks.filter(|planned| planned.purpose == "migrate a chunk").count()
}

#[tokio::test]
async fn a_plan_resumes_an_interrupted_migration() {
    testkit::run(async |db| {
        let keys: Vec<Bson> = (0..4).map(Bson::Int32).collect();
        fill(db, &documents(&keys, 25)).await;
        let trades = histories::<u32>(db).build().unwrap();
        let source = db.collection::<Document>("flat");
        {
            let migration = trades.migrate_from_flat(&source).chunk(30);
            let (sender, broken_off) = tokio::sync::oneshot::channel();
            let mut sender = Some(sender);
            let migration = migration.on_progress(move |_| {
                if let Some(sender) = sender.take() {
                    sender.send(()).unwrap();
                }
            });
            tokio::select! {
                biased;
                _ = broken_off => {}
                _ = migration.into_future() => panic!("the migration was not interrupted"),
            }
        }
        let planned = trades.migrate_from_flat(&source).chunk(30).plan().await.unwrap();
        assert!(planned.migrated.resumed && chunks_of(&planned) < 3, "{planned:?}");
        let mut before = None;
        let migrated = trades
            .migrate_from_flat(&source)
            .chunk(30)
            .on_progress(|at| before = Some(at.before))
            .await;
        assert!(migrated.unwrap().resumed);
        assert!(before.is_some_and(|before| before >= 30), "{before:?}");
    })
    .await;
}
