//! A flat collection and buckets.

use futures::TryStreamExt;
use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::{Form, Items, Op, Write, Writers, items_of};
use support::bucket::migration::{Histories, fill, flat, histories};
use support::common::{SECOND, all, at, plain};
use support::pace::Pace;

const KEYS: i32 = 20;
const EACH: i32 = 10;
/// The errors of a migration whose source or target another program writes.
const NOTICED: [ErrorKind; 2] = [ErrorKind::CountMismatch, ErrorKind::DuplicateKey];

fn items() -> Items {
    let of_key = |key: i32| (0..EACH).map(move |n| ((key, key * EACH + n), 0));
    (1..=KEYS).flat_map(of_key).collect()
}

fn trade(id: i32, value: i32) -> Document {
    doc! { "id": id, "n": value, "date": at(SECOND + i64::from(id)) }
}

fn document(key: i32, id: i32, value: i32) -> Document {
    let mut document = doc! { "_id": id, "customerId": key };
    document.extend(trade(id, value));
    document
}

fn trades(db: &TestDatabase) -> Histories<i32> {
    histories(db).page_size(4).build().unwrap()
}

fn flat_form(flat: Collection<Document>) -> Form {
    Form::new(&[], move |Write { key, id, value, .. }| {
        let flat = flat.clone();
        let inserted = async move { flat.insert_one(document(key, id, value)).await };
        async { inserted.await.map(drop).map_err(Error::from) }
    })
}

fn bucket_form(trades: Histories<i32>) -> Form {
    Form::new(&[], move |Write { key, id, value, .. }| {
        let trades = trades.clone();
        async move { trades.append(&key, &trade(id, value)).await.map(drop) }
    })
}

fn of_document(key: i32, document: &Document) -> ((i32, i32), i32) {
    let number = |field| document.get_i32(field).unwrap();
    ((key, number("id")), number("n"))
}

async fn in_flat(db: &TestDatabase) -> Items {
    let stored = all(&flat(db)).await;
    items_of(
        stored
            .iter()
            .map(|one| of_document(one.get_i32("customerId").unwrap(), one)),
    )
}

async fn in_buckets(trades: &Histories<i32>) -> Items {
    let mut found = Vec::new();
    for key in 1..=KEYS {
        let items: Vec<Document> = trades.items(&key).stream().try_collect().await.unwrap();
        found.extend(items.iter().map(|item| of_document(key, item)));
    }
    items_of(found)
}

/// Writers that were not stopped are an error, and what to do about it loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_a_flat_collection_and_of_buckets_are_noticed_by_the_migration() {
    testkit::run(async |db| {
        let initial = items();
        let documents: Vec<_> = initial.keys().map(|(key, id)| document(*key, *id, 0)).collect();
        fill(db, &documents).await;
        let trades = trades(db);
        let forms = [flat_form(flat(db)), bucket_form(trades.clone())];
        let pace = Pace::of(0);
        let writers = Writers::start(&initial, KEYS, &forms, &[Op::Add], &pace);
        let source = flat(db);
        let migration = trades.migrate_from_flat(&source).chunk(30);
        let migrated = migration.on_progress(|_| pace.add(10)).await;
        let acknowledged = writers.end().await;
        let error = migrated.unwrap_err();
        assert!(NOTICED.contains(&error.kind()), "{error:?}");
        // As its text says.
        let (flat_items, appended) = (in_flat(db).await, in_buckets(&trades).await);
        let only = appended.iter().filter(|(item, _)| !flat_items.contains_key(item));
        let only: Vec<_> = only.map(|((key, id), n)| document(*key, *id, *n)).collect();
        assert!(!only.is_empty());
        flat(db).insert_many(only).await.unwrap();
        plain(db).delete_many(doc! {}).await.unwrap();
        trades.migrate_from_flat(&source).chunk(30).await.unwrap();
        assert_eq!(in_buckets(&trades).await, acknowledged.items);
    })
    .await;
}

/// The same on the way back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_buckets_and_of_a_flat_collection_are_noticed_by_the_migration() {
    testkit::run(async |db| {
        let initial = items();
        let trades = trades(db);
        trades.ensure_indexes().await.unwrap();
        for (key, id) in initial.keys() {
            trades.append(key, &trade(*id, 0)).await.unwrap();
        }
        let forms = [bucket_form(trades.clone()), flat_form(flat(db))];
        let pace = Pace::of(0);
        let writers = Writers::start(&initial, KEYS, &forms, &[Op::Add], &pace);
        let target = flat(db);
        let migration = trades.migrate_to_flat(&target).chunk(30);
        let migrated = migration.on_progress(|_| pace.add(10)).await;
        let acknowledged = writers.end().await;
        let error = migrated.unwrap_err();
        assert!(NOTICED.contains(&error.kind()), "{error:?}");
        let (flat_items, stored) = (in_flat(db).await, in_buckets(&trades).await);
        let only = flat_items.iter().filter(|(item, _)| !stored.contains_key(item));
        let mut inserted = 0;
        for ((key, id), n) in only {
            trades.append(key, &trade(*id, *n)).await.unwrap();
            inserted += 1;
        }
        assert!(inserted > 0);
        flat(db).delete_many(doc! {}).await.unwrap();
        trades.migrate_to_flat(&target).chunk(30).await.unwrap();
        let migrated = all(&flat(db)).await;
        let migrated = migrated
            .iter()
            .map(|one| of_document(one.get_i32("customerId").unwrap(), one));
        assert_eq!(items_of(migrated), acknowledged.items);
    })
    .await;
}
