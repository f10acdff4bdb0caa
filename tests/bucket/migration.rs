//! Migrations from a flat collection to buckets and back: the stored documents.

use std::collections::BTreeMap;

use mongo_patterns::Key;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, Uuid, doc};
use mongodb::options::Collation;

use support::bucket::migration::*;
use support::bucket::*;
use support::common::*;

/// Checks that there are no buckets, and no record of a migration.
pub async fn nothing_is_stored(db: &TestDatabase) {
    assert_eq!(all(&plain(db)).await, []);
    assert_eq!(all(&db.plain_collection("mongo_patterns")).await, []);
}

/// All documents by `_id`, with the order of their fields and the types of their numbers.
pub async fn stored(collection: &Collection<Document>) -> Vec<RawDocumentBuf> {
    all(collection).await.iter().map(raw).collect()
}

pub fn raw(document: &Document) -> RawDocumentBuf {
    mongodb::bson::serialize_to_raw_document_buf(document).unwrap()
}

/// The buckets that a flat collection must become, computed without a server.
pub fn buckets<K: Key>(flat: &[Document], key_field: &str, page_size: usize, keep_ids: bool) -> Vec<RawDocumentBuf> {
    let mut by_key: BTreeMap<String, (Bson, Vec<&Document>)> = BTreeMap::new();
    for document in flat {
        let raw = raw(document);
        let key = K::from_stored(raw.get(key_field).unwrap().unwrap())
            .unwrap()
            .encode_key()
            .unwrap();
        let group = by_key.entry(key.text().to_owned());
        group
            .or_insert_with(|| (key.value().clone(), Vec::new()))
            .1
            .push(document);
    }
    let mut made: Vec<Document> = Vec::new();
    for (text, (value, mut documents)) in by_key {
        documents.sort_by_key(|document| {
            let id = document.get_i32("_id").unwrap_or(0);
            (*document.get_datetime("date").unwrap(), id)
        });
        let mut in_second: BTreeMap<i64, u32> = BTreeMap::new();
        for page in documents.chunks(page_size) {
            let date = page[0].get_datetime("date").unwrap();
            let second = date.timestamp_millis().div_euclid(1000);
            let number = in_second.entry(second).or_default();
            let suffix = if *number == 0 {
                String::new()
            } else {
                format!("_{number:06}")
            };
            *number += 1;
            let items = page.iter().map(|document| {
                let mut item = (*document).clone();
                item.remove(key_field);
                if !keep_ids {
                    item.remove("_id");
                }
                Bson::Document(item)
            });
            let items: Vec<Bson> = items.collect();
            let count = i32::try_from(items.len()).unwrap();
            let id = format!("{text}_{second:010}{suffix}");
            made.push(doc! { "_id": id, "customerId": value.clone(), "count": count, "history": items });
        }
    }
    made.sort_by(|a, b| a.get_str("_id").unwrap().cmp(b.get_str("_id").unwrap()));
    made.iter().map(raw).collect()
}

/// The flat documents after a migration back: `_id` and key first, and the key as the repository stores it.
fn back<K: Key>(flat: &[Document], key_field: &str) -> Vec<RawDocumentBuf> {
    let document = |document: &Document| {
        let stored = raw(document);
        let key = K::from_stored(stored.get(key_field).unwrap().unwrap())
            .unwrap()
            .encode_key()
            .unwrap();
        let mut back = doc! { "_id": document.get("_id"), key_field: key.value() };
        back.extend(
            document
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .filter(|(name, _)| name != key_field),
        );
        raw(&back)
    };
    flat.iter().map(document).collect()
}

/// Migrates into buckets, compares them with the expected ones, appends and reads pages, migrates back into another
/// collection, and compares that with the source.
async fn there_and_back<K: Key>(db: &TestDatabase, keys: &[Bson], page_size: u32) {
    let documents = documents(keys, 23);
    fill(db, &documents).await;
    let trades = histories::<K>(db).page_size(page_size).build().unwrap();
    let migrated = trades.migrate_from_flat(&flat(db)).keep_ids().chunk(40).await.unwrap();
    let expected = buckets::<K>(&documents, "customerId", page_size as usize, true);
    assert_eq!(stored(&plain(db)).await, expected);
    let numbers = (documents.len() as u64, expected.len() as u64);
    assert_eq!((migrated.items, migrated.documents), numbers);
    assert_eq!((migrated.keys, migrated.resumed), (keys.len() as u64, false));
    assert_eq!(violations(&plain(db), i32::try_from(page_size).unwrap()).await, []);

    let back = db.plain_collection("back");
    back.drop().await.unwrap();
    let migrated = trades.migrate_to_flat(&back).chunk(40).await.unwrap();
    assert_eq!((migrated.items, migrated.documents), numbers);
    assert!(stored(&back).await == self::back::<K>(&all(&flat(db)).await, "customerId"));

    for key in keys {
        let key = K::from_stored(raw(&doc! { "k": key }).get("k").unwrap().unwrap()).unwrap();
        let pages = 23_u64.div_ceil(page_size.into());
        let (last, opens) = (doc! { "n": 23, "date": at(SECOND + 100) }, 23 % page_size == 0);
        let appended = trades.append(&key, &last).await.unwrap();
        assert_eq!(appended.opened.is_some(), opens, "the open bucket is found");
        let counts = trades.counts(&key).await.unwrap();
        assert_eq!((counts.pages, counts.items), (pages + u64::from(opens), 24));
        assert_eq!(trades.newest(&key, 1).await.unwrap(), [last]);
    }
}

#[tokio::test]
async fn keys_of_all_types_and_pages_of_all_sizes() {
    testkit::run(async |db| {
        let strings: Vec<Bson> = ["", "12", "12_3", "%5F", "a.b|c", "\\|", "\0", "$n", "日本"]
            .map(Bson::from)
            .to_vec();
        let oids: Vec<Bson> = (0..5).map(|_| Bson::ObjectId(ObjectId::new())).collect();
        let uuids: Vec<Bson> = (0..5).map(|_| Bson::from(Uuid::new())).collect();
        for page_size in [1, 10, 50] {
            let numbers: [Bson; 5] = [0.into(), 7.into(), 12.0.into(), 123_i64.into(), i32::MAX.into()];
            there_and_back::<i32>(db, &numbers, page_size).await;
        }
        there_and_back::<String>(db, &strings, 10).await;
        there_and_back::<u32>(db, &[0.into(), i64::from(u32::MAX).into(), 4e9.into()], 3).await;
        let longs = [i64::MIN.into(), (-5).into(), i64::MAX.into(), (1_i64 << 40).into()];
        there_and_back::<i64>(db, &longs, 3).await;
        there_and_back::<u64>(db, &[0.into(), i64::MAX.into()], 10).await;
        there_and_back::<ObjectId>(db, &oids, 1).await;
        if at_least(db, 8) {
            there_and_back::<Uuid>(db, &uuids, 3).await;
        }
    })
    .await;
}

#[tokio::test]
async fn fifty_items_of_one_second_are_stored_in_order() {
    testkit::run(async |db| {
        let of_second = |n: i32| doc! { "_id": 50 - n, "customerId": 123, "n": n, "date": at(SECOND) };
        let documents: Vec<Document> = (0..50).map(of_second).collect();
        fill(db, &documents).await;
        let trades = histories::<u32>(db).build().unwrap();
        trades.migrate_from_flat(&flat(db)).await.unwrap();
        let made = all(&plain(db)).await;
        let suffixes = ["", "_000001", "_000002", "_000003", "_000004"].map(|suffix| format!("123_{SECOND}{suffix}"));
        assert_eq!(ids(&made), suffixes);
        let items = collected(trades.items(&123).stream()).await;
        let order = items.iter().map(|item| item.get_i32("n").unwrap());
        assert!(order.eq((0..50).rev()), "by `_id` where times are equal");
        let opened = trades.append(&123, &doc! { "date": at(SECOND) }).await.unwrap().opened;
        assert_eq!(opened, Some(format!("123_{SECOND}_000005")), "the suffixes continue");
    })
    .await;
}

/// Fields with names and values that an expression would evaluate, and numbers that are stored as doubles.
#[tokio::test]
async fn items_are_migrated_unchanged() {
    testkit::run(async |db| {
        let hostile = doc! {
            "_id": 1, "$x": 2, "customer": 7.0, "a.b": 1, "date": at(SECOND), "k": "$k", "o": { "$set": { "c.d": "$$ROOT" } },
            "i": ["$count"], "n": null, "s": "$$REMOVE", "count": "$count", "history": [[]], "customerId": "own", "": 5,
        };
        let documents = [hostile, doc! { "_id": 2, "date": at(SECOND + 1), "customer": 7 }];
        fill(db, &documents).await;
        for keep_ids in [false, true] {
            plain(db).drop().await.unwrap();
            let trades = histories::<u32>(db).build().unwrap();
            let collection = flat(db);
            let migration = trades.migrate_from_flat(&collection).key_field("customer");
            let migrated = if keep_ids { migration.keep_ids().await } else { migration.await };
            assert_eq!(migrated.unwrap().items, 2);
            let expected = buckets::<u32>(&documents, "customer", 10, keep_ids);
            assert_eq!(stored(&plain(db)).await, expected);
        }
        let trades = histories::<u32>(db).build().unwrap();
        let back = db.plain_collection("back");
        trades.migrate_to_flat(&back).key_field("customer").await.unwrap();
        assert_eq!(stored(&back).await, self::back::<u32>(&documents, "customer"));
    })
    .await;
}

#[tokio::test]
async fn items_without_an_id_get_one_with_their_position() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        for n in 0..12 {
            trades.append(&123, &same_second(n)).await.unwrap();
        }
        let migrated = trades.migrate_to_flat(&flat(db)).await.unwrap();
        assert_eq!((migrated.keys, migrated.items, migrated.documents), (1, 12, 2));
        let documents = all(&flat(db)).await;
        let first = doc! { "_id": format!("123_{SECOND}_0"), "customerId": 123, "n": 0_i64, "date": at(SECOND) };
        assert_eq!(raw(&documents[0]), raw(&first));
        assert_eq!(ids(&documents).last(), Some(&format!("123_{SECOND}_9").as_str()));
        assert!(ids(&documents).contains(&format!("123_{SECOND}_000001_1").as_str()));
    })
    .await;
}

/// With a case-insensitive collation, `a` and `A` would be one key.
#[tokio::test]
async fn a_flat_collection_with_a_collation_is_migrated_by_bytes() {
    testkit::run(async |db| {
        let documents = documents(&["a".into(), "A".into(), "b".into()], 12);
        flat(db).drop().await.unwrap();
        let without_case = Collation::builder()
            .locale("en")
            .strength(mongodb::options::CollationStrength::Primary)
            .build();
        let database = db.plain_client().database(db.database().name());
        let create = database.create_collection("flat").collation(without_case);
        create.await.unwrap();
        flat(db).insert_many(&documents).await.unwrap();
        let index = mongodb::IndexModel::builder().keys(doc! { "customerId": 1 }).build();
        flat(db).create_index(index).await.unwrap();
        let trades = histories::<String>(db).build().unwrap();
        let migrated = trades.migrate_from_flat(&flat(db)).chunk(5).await.unwrap();
        assert_eq!((migrated.keys, migrated.items), (3, 36));
        let expected = buckets::<String>(&documents, "customerId", 10, false);
        assert_eq!(stored(&plain(db)).await, expected);
    })
    .await;
}

#[tokio::test]
async fn an_index_allows_chunks_of_whole_keys() {
    testkit::run(async |db| {
        let keys: Vec<Bson> = (0..10).map(Bson::Int32).collect();
        let documents = documents(&keys, 5);
        for indexed in [true, false] {
            fill(db, &documents).await;
            if !indexed {
                flat(db).drop_indexes().await.unwrap();
            }
            let mut progress = Vec::new();
            let trades = histories::<u32>(db).build().unwrap();
            let source = db.collection::<Document>("flat");
            db.recorder().clear();
            let migration = trades.migrate_from_flat(&source).chunk(12);
            // A rate slices no chunk without an index.
            let migration = if indexed { migration } else { migration.rate(40) };
            let migration = migration.on_progress(|at| progress.push((at.done, at.total)));
            migration.await.unwrap();
            // Three keys have the first 12 items, and so on.
            let in_chunks = [(15, 50), (30, 50), (45, 50), (50, 50)];
            assert_eq!(progress, if indexed { &in_chunks[..] } else { &in_chunks[3..] });
            let commands = db.recorder().commands();
            let is_merge = |sent: &&testkit::RecordedCommand| sent.command.to_string().contains("\"$merge\"");
            assert_eq!(commands.iter().filter(is_merge).count(), progress.len());
            let inserts = commands.iter().filter(|sent| sent.name == "insert");
            assert_eq!(inserts.count(), 0, "no document passes through the client");
        }
    })
    .await;
}
