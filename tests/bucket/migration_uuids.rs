//! Migrations of flat documents with UUID keys, for whose text a server before MongoDB 8.0 has no expression.

use futures::TryStreamExt;
use futures::stream::iter;
use mongo_patterns::{AsKey, ErrorKind};
use mongo_patterns_core::PlannedCommand;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, Uuid, doc};

use crate::bucket::migration::nothing_is_stored;
use support::bucket::migration;
use support::bucket::migration::{Histories, flat};
use support::bucket::*;
use support::common::*;
use support::plans::essence;

/// The server's code of a conversion that it does not have.
const CONVERSION_FAILURE: i32 = 241;

fn histories(db: &TestDatabase) -> Histories<Uuid> {
    migration::histories(db).page_size(2).build().unwrap()
}

/// Stores three trades of each of some keys, and returns the keys.
async fn fill(flat: &Collection<Document>, keys: usize) -> Vec<Uuid> {
    let keys: Vec<Uuid> = (0..keys).map(|_| Uuid::new()).collect();
    let trades: Vec<Document> = (0..3)
        .flat_map(|n| {
            keys.iter()
                .map(move |key| doc! { "customerId": key, "n": n, "date": at(SECOND + n) })
        })
        .collect();
    flat.insert_many(trades).await.unwrap();
    keys
}

/// Checks that each key has its two buckets.
async fn check(stored: &Collection<Document>, keys: &[Uuid]) {
    let ids = stored
        .find(doc! {})
        .projection(doc! { "_id": 1, "customerId": 1 })
        .await
        .unwrap();
    let mut ids: Vec<Document> = ids.try_collect().await.unwrap();
    let expected = keys
        .iter()
        .flat_map(|key| [0, 2].map(|second| doc! { "_id": format!("{key}_{}", SECOND + second), "customerId": key }));
    let mut expected: Vec<Document> = expected.collect();
    for documents in [&mut ids, &mut expected] {
        documents.sort_by_key(|document| document.get_str("_id").unwrap().to_owned());
    }
    assert_eq!(ids, expected);
}

/// A key type of a service, stored as a UUID.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Customer(Uuid);

impl AsKey for Customer {
    type Key = Uuid;

    fn to_key(&self) -> Uuid {
        self.0
    }

    fn from_key(key: Uuid) -> Option<Self> {
        Some(Self(key))
    }
}

#[tokio::test]
async fn a_server_without_the_text_of_a_uuid_is_refused_before_anything_is_written() {
    testkit::run(async |db| {
        if at_least(db, 8) {
            return;
        }
        fill(&flat(db), 4).await;
        let source = db.collection::<Document>("flat");
        let trades = histories(db);
        let of_customers = untimed::<Customer, Document>(db).time_field("date").build().unwrap();
        db.recorder().clear();
        for refused in [
            trades.migrate_from_flat(&source).await.map(drop),
            trades.migrate_from_flat(&source).plan().await.map(drop),
            of_customers.migrate_from_flat(&source).await.map(drop),
            trades.migrate_to_flat(&source).await.map(drop),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
            let text = error.to_string();
            assert!(
                text.contains("MongoDB 8.0") && text.contains("nothing was migrated"),
                "{text}"
            );
            let of_driver = error.as_driver_error().and_then(mongo_patterns_core::error::code);
            assert_eq!(of_driver, Some(CONVERSION_FAILURE));
        }
        let text = trades.migrate_from_flat(&source).await.unwrap_err().to_string();
        assert!(text.contains("append_stream()"), "{text}");
        assert_eq!(db.recorder().names(), ["find"; 5]);
        nothing_is_stored(db).await;

        // An empty collection too.
        flat(db).drop().await.unwrap();
        assert_refused(trades.migrate_from_flat(&source).await, ErrorKind::Unsupported);
    })
    .await;
}

/// The remedy of that error, which the book has, works with every server, and gives the buckets of the migration.
#[tokio::test]
async fn documents_that_are_read_through_the_client_are_appended() {
    testkit::run(async |db| {
        let keys = fill(&flat(db), 25).await;
        let trades = histories(db);
        trades.ensure_indexes().await.unwrap();
        let source = flat(db);
        let sorted = source.find(doc! {}).sort(doc! { "customerId": 1, "date": 1 });
        let items = sorted.await.unwrap().map_ok(|mut trade| {
            let Some(Bson::Binary(key)) = trade.remove("customerId") else {
                panic!("no key: {trade}");
            };
            trade.remove("_id");
            (key.to_uuid().unwrap(), trade)
        });
        let mut chunks = items.try_chunks(10);
        while let Some(chunk) = chunks.try_next().await.map_err(|error| error.1).unwrap() {
            trades.append_stream(iter(chunk)).await.unwrap();
        }
        check(&plain(db), &keys).await;
    })
    .await;
}

#[tokio::test]
async fn uuid_keys_are_migrated_there_and_back_since_mongodb_8() {
    testkit::run(async |db| {
        if !at_least(db, 8) {
            return;
        }
        let source = db.collection::<Document>("flat");
        let keys = fill(&flat(db), 9).await;
        let trades = histories(db);
        let essences = |planned: &[PlannedCommand]| -> Vec<Document> {
            planned.iter().map(|planned| essence(&planned.command)).collect()
        };
        let planned = trades.migrate_from_flat(&source).plan().await.unwrap();
        nothing_is_stored(db).await;
        db.recorder().clear();
        trades.migrate_from_flat(&source).await.unwrap();
        let sent = db.recorder().commands();
        let sent: Vec<Document> = sent.iter().map(|sent| essence(&sent.essence())).collect();
        assert_eq!(sent, essences(&planned.commands));
        check(&plain(db), &keys).await;
        let back = db.collection::<Document>("back");
        assert_eq!(trades.migrate_to_flat(&back).await.unwrap().items, 27);

        for (number, id) in [format!("{}_{SECOND}", Uuid::new()), format!("{}x", keys[0])]
            .into_iter()
            .enumerate()
        {
            let items = vec![doc! { "n": 1, "date": at(SECOND) }; 2];
            let other = doc! { "_id": &id, "customerId": keys[0], "count": 2, "history": items };
            plain(db).insert_one(other).await.unwrap();
            let again = db.collection::<Document>(&format!("again_{number}"));
            let refused = trades.migrate_to_flat(&again).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
            assert_eq!(refused.document_id(), Some(&Bson::from(id.as_str())));
            plain(db).delete_one(doc! { "_id": id }).await.unwrap();
        }
    })
    .await;
}
