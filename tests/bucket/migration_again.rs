//! Migrations that are interrupted, and run again.

use mongo_patterns::bucket::Migrated;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::bucket::migration::*;
use crate::common::support::*;

const ITEMS: u64 = 6 * 15;

fn six_keys() -> Vec<Document> {
    documents(&[0, 1, 2, 3, 4, 5].map(Bson::Int32), 15)
}

pub fn trades(db: &TestDatabase) -> Histories<u32> {
    histories::<u32>(db).build().unwrap()
}

/// Matches the records of migrations in the catalog.
fn of_migration() -> Document {
    doc! { "_id.kind": "migration" }
}

fn records(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("mongo_patterns")
}

/// Migrates in this direction, with the client that fail points affect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    There,
    Back,
}

impl Way {
    pub async fn go(self, db: &TestDatabase) -> Result<Migrated, Error> {
        let trades = trades(db);
        match self {
            Self::There => {
                trades
                    .migrate_from_flat(&db.collection::<Document>("flat"))
                    .chunk(40)
                    .await
            }
            Self::Back => {
                trades
                    .migrate_to_flat(&db.collection::<Document>("back"))
                    .chunk(40)
                    .await
            }
        }
    }

    fn target(self, db: &TestDatabase) -> Collection<Document> {
        db.plain_collection(if self == Self::There { "trades" } else { "back" })
    }

    /// Empties the target, and returns the documents that it must get.
    pub async fn prepare(self, db: &TestDatabase) -> Vec<RawDocumentBuf> {
        if self == Self::Back {
            // Some items have an `_id`, and others have none.
            let id = doc! { "$concat": ["own_", "$_id", "_", { "$toString": "$$this.n" }] };
            let with_id = doc! { "$mergeObjects": ["$$this", { "_id": id }] };
            let items = doc! { "$map": { "input": "$history", "in": with_id } };
            let update = [doc! { "$set": { "history": items } }];
            let some = doc! { "customerId": { "$lt": 3 } };
            plain(db).update_many(some, update.to_vec()).await.unwrap();
        }
        let expected = self.expected(db).await;
        self.target(db).drop().await.unwrap();
        records(db).drop().await.unwrap();
        expected
    }

    async fn expected(self, db: &TestDatabase) -> Vec<RawDocumentBuf> {
        if self == Self::There {
            return buckets::<u32>(&six_keys(), "customerId", 10, false);
        }
        let mut flat = Vec::new();
        for bucket in all(&plain(db)).await {
            for (n, item) in bucket.get_array("history").unwrap().iter().enumerate() {
                let id = format!("{}_{n}", bucket.get_str("_id").unwrap());
                let mut document = doc! { "_id": id, "customerId": bucket.get("customerId") };
                document.extend(item.as_document().unwrap().clone());
                flat.push(document);
            }
        }
        flat.sort_by(|a, b| a.get_str("_id").unwrap().cmp(b.get_str("_id").unwrap()));
        flat.iter().map(raw).collect()
    }

    /// Deletes a document, as if a chunk had been interrupted earlier.
    async fn delete_one_behind(self, db: &TestDatabase, last: Option<&Bson>) {
        let bound = match last {
            None => Bson::MinKey,
            Some(Bson::String(bucket)) => bucket[..1].parse::<i32>().unwrap().into(),
            Some(key) => key.clone(),
        };
        let behind = doc! { "customerId": { "$gt": bound } };
        self.target(db).delete_one(behind).await.unwrap();
    }

    pub async fn check(self, db: &TestDatabase, migrated: Migrated, expected: &[RawDocumentBuf]) {
        assert_eq!((migrated.keys, migrated.items, migrated.buckets), (6, ITEMS, 12));
        assert!(stored(&self.target(db)).await == expected, "{self:?}");
        let records: Vec<Document> = all(&records(db)).await;
        assert!(
            records
                .iter()
                .filter(|record| record.get_document("_id").unwrap().get_str("kind").unwrap() == "migration")
                .all(|record| record.contains_key("finished") && !record.contains_key("last"))
        );
    }
}

/// Fills the flat collection, and for the other direction the buckets.
pub async fn begin(db: &TestDatabase) {
    fill(db, &six_keys()).await;
    trades(db).migrate_from_flat(&flat(db)).await.unwrap();
}

/// The server executes each command in turn and returns an error, and a running chunk is stored in part.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_migration_that_stops_after_any_write_resumes() {
    testkit::run(async |db| {
        begin(db).await;
        for way in [Way::There, Way::Back] {
            let mut failed = 0;
            loop {
                let expected = way.prepare(db).await;
                let fault = FailPoint::on(&["aggregate", "update"])
                    .skip(failed)
                    .write_concern_error(64)
                    .enable(db)
                    .await;
                let outcome = way.go(db).await;
                fault.disable().await;
                let Err(_) = outcome else { break };
                failed += 1;
                // After the recorded position, some documents may exist and others not.
                let record = records(db).find_one(of_migration()).await.unwrap();
                let unfinished = record.filter(|record| !record.contains_key("finished"));
                if let Some(record) = unfinished {
                    way.delete_one_behind(db, record.get("last")).await;
                }
                let migrated = way.go(db).await.unwrap();
                way.check(db, migrated, &expected).await;
            }
            assert!(failed > 5, "{way:?}: {failed}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_finished_migration_is_recognized() {
    testkit::run(async |db| {
        begin(db).await;
        let expected = stored(&plain(db)).await;
        db.recorder().clear();
        let migrated = Way::There.go(db).await.unwrap();
        assert!(migrated.resumed);
        Way::There.check(db, migrated, &expected).await;
        assert_eq!(
            db.recorder().names(),
            ["find", "find", "aggregate"],
            "its record, and a count"
        );

        // Later writes of others do not make it another migration.
        trades(db)
            .append(&3, &doc! { "n": 15, "date": at(SECOND + 60) })
            .await
            .unwrap();
        let error = Way::There.go(db).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TargetNotEmpty, "{error:?}");
        assert_eq!(trades(db).counts(&3).await.unwrap().items, 16);

        plain(db).drop().await.unwrap();
        let migrated = Way::There.go(db).await.unwrap();
        assert!(!migrated.resumed, "an empty target is filled again");
        Way::There.check(db, migrated, &expected).await;
    })
    .await;
}

/// Interrupts a migration after its first chunk, of three keys.
async fn interrupt(db: &TestDatabase) {
    Way::There.prepare(db).await;
    // The finds of the record, of the settings, and of the first chunk.
    let fault = FailPoint::on(&["find"]).skip(3).close_connection().enable(db).await;
    Way::There.go(db).await.unwrap_err();
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
        let flat = flat(db);
        let others = [
            histories::<u32>(db)
                .page_size(5)
                .build()
                .unwrap()
                .migrate_from_flat(&flat)
                .await
                .unwrap_err(),
            trades(db).migrate_from_flat(&flat).keep_ids().await.unwrap_err(),
            trades(db)
                .migrate_from_flat(&flat)
                .keep_ids()
                .allow_non_empty_target()
                .await
                .unwrap_err(),
        ];
        for error in others {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
        }
        assert_eq!(stored(&plain(db)).await, before);

        let migrated = trades(db).migrate_from_flat(&flat).chunk(7).await.unwrap();
        assert!(migrated.resumed, "chunks may have another size");
        Way::There.check(db, migrated, &Way::There.expected(db).await).await;

        interrupt(db).await;
        plain(db).delete_many(doc! {}).await.unwrap();
        let migrated = trades(db).migrate_from_flat(&flat).keep_ids().await.unwrap();
        assert_eq!(
            (migrated.items, migrated.resumed),
            (ITEMS, false),
            "with an empty target the migration starts again"
        );
        assert_eq!(
            stored(&plain(db)).await,
            buckets::<u32>(&six_keys(), "customerId", 10, true)
        );
    })
    .await;
}

#[tokio::test]
async fn concurrent_appends_are_kept() {
    testkit::run(async |db| {
        begin(db).await;
        interrupt(db).await;
        // Key 0 is migrated, and a service writes too early. Its item is kept when its chunk runs again.
        trades(db)
            .append(&0, &doc! { "n": 99, "date": at(SECOND + 60) })
            .await
            .unwrap();
        records(db)
            .update_one(doc! {}, doc! { "$unset": { "last": 1 } })
            .await
            .unwrap();
        let error = Way::There.go(db).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CountMismatch, "{error:?}");
        assert!(error.to_string().contains("1 of 6 keys"), "{error}");
        assert_eq!(trades(db).counts(&0).await.unwrap().items, 16);
        assert_eq!(
            trades(db).newest(&0, 1).await.unwrap()[0].get("n"),
            Some(&Bson::Int32(99))
        );

        // Without that item the counts are equal, and the next call succeeds.
        let undo = doc! { "$pop": { "history": 1 }, "$inc": { "count": -1 } };
        plain(db)
            .update_one(doc! { "customerId": 0, "count": { "$lt": 10 } }, undo)
            .await
            .unwrap();
        let migrated = Way::There.go(db).await.unwrap();
        assert!(migrated.resumed);
        Way::There.check(db, migrated, &Way::There.expected(db).await).await;
    })
    .await;
}

#[tokio::test]
async fn a_source_that_is_written_to_is_a_mismatch() {
    testkit::run(async |db| {
        begin(db).await;
        interrupt(db).await;
        flat(db)
            .insert_one(doc! { "_id": -1, "customerId": 0, "date": at(SECOND) })
            .await
            .unwrap();
        for _ in 0..2 {
            let error = Way::There.go(db).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CountMismatch, "{error:?}");
        }
        plain(db).delete_many(doc! {}).await.unwrap();
        assert_eq!(Way::There.go(db).await.unwrap().items, ITEMS + 1);
        assert_eq!(violations(&plain(db), 10).await, []);
    })
    .await;
}

#[tokio::test]
async fn another_writer_of_a_key_is_named() {
    testkit::run(async |db| {
        begin(db).await;
        interrupt(db).await;
        trades(db)
            .append(&5, &doc! { "n": 99, "date": at(SECOND - 60) })
            .await
            .unwrap();
        let error = Way::There.go(db).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error:?}");
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
        let expected = Way::There.prepare(db).await;
        let mut contended = 0;
        for _ in 0..5 {
            Way::There.prepare(db).await;
            let (one, other) = futures::join!(Way::There.go(db), Way::There.go(db));
            let errors = [&one, &other].into_iter().filter_map(|outcome| outcome.as_ref().err());
            for error in errors {
                let race = [ErrorKind::Contention, ErrorKind::TargetNotEmpty];
                assert!(race.contains(&error.kind()), "{error:?}");
                contended += 1;
            }
            let migrated = one.or(other).unwrap();
            Way::There.check(db, migrated, &expected).await;
        }
        assert!(contended > 0);
    })
    .await;
}
