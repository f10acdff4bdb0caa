//! With an item id field, any number of appends stores an item once.

use std::collections::BTreeMap;

use futures::future::join_all;
use futures::stream;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns::{ErrorKind, bucket};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::common::*;

fn identified(db: &TestDatabase) -> bucket::BucketRepositoryBuilder<u32, Trade> {
    builder(db).item_id_field("n")
}

/// Returns how often each item is stored.
async fn stored(db: &TestDatabase) -> BTreeMap<i64, usize> {
    let mut stored = BTreeMap::new();
    for bucket in all(&plain(db)).await {
        for item in bucket.get_array("history").unwrap() {
            let n = item.as_document().unwrap().get_i64("n").unwrap();
            *stored.entry(n).or_default() += 1;
        }
    }
    stored
}

async fn assert_each_once(db: &TestDatabase, items: i64) {
    let expected: BTreeMap<i64, usize> = (0..items).map(|n| (n, 1)).collect();
    assert_eq!(stored(db).await, expected);
    assert_eq!(violations(&plain(db), 10).await, []);
}

#[tokio::test]
async fn a_repeated_append_is_recognized_in_every_bucket() {
    testkit::run(async |db| {
        let trades = ready(db, identified(db)).await;
        for n in 0..25 {
            assert!(!trades.append(&123, &spread(n)).await.unwrap().already_there);
        }
        // Items 0 and 10 are the first of full buckets, 9 and 15 are in full buckets, 20 and 24 are in the open
        // one.
        for n in [0, 9, 10, 15, 20, 24] {
            db.recorder().clear();
            let appended = trades.append(&123, &spread(n)).await.unwrap();
            assert!(appended.already_there && appended.opened.is_none(), "{n}");
            assert!(db.recorder().round_trips() <= 3, "{n}: {:?}", db.recorder().names());
        }
        // No bucket is open, and the item is in a full one.
        for n in 25..30 {
            trades.append(&123, &spread(n)).await.unwrap();
        }
        for n in [0, 20, 29] {
            assert!(trades.append(&123, &spread(n)).await.unwrap().already_there, "{n}");
        }
        assert_each_once(db, 30).await;
        // The same id of another key belongs to another item.
        assert!(!trades.append(&12, &spread(0)).await.unwrap().already_there);
    })
    .await;
}

#[tokio::test]
async fn an_append_of_a_new_item_stays_one_round_trip() {
    testkit::run(async |db| {
        let trades = ready(db, identified(db)).await;
        trades.append(&123, &spread(0)).await.unwrap();
        assert_eq!(
            db.recorder().names(),
            ["listIndexes", "update"],
            "the first append checks the index"
        );
        db.recorder().clear();
        for n in 1..35 {
            trades.append(&123, &spread(n)).await.unwrap();
        }
        assert_eq!(db.recorder().round_trips(), 34);
        let examined = explain_last(db).await;
        assert_eq!((examined.documents, examined.keys), (1, 1));
        assert_eq!(examined.index, "customerId_1_count_lt_10");
    })
    .await;
}

#[tokio::test]
async fn an_append_with_an_unknown_outcome_is_safe_to_retry() {
    testkit::run(async |db| {
        let trades = ready(db, identified(db)).await;
        // Two pages.
        for n in 0..12 {
            // The command runs and is reported as failed, as if the connection broke before the reply.
            let fault = FailPoint::on(&["update"])
                .times(1)
                .write_concern_error(64)
                .enable(db)
                .await;
            let error = trades.append(&123, &spread(n)).await.unwrap_err();
            assert!(error.is_outcome_unknown());
            fault.disable().await;
            assert!(trades.append(&123, &spread(n)).await.unwrap().already_there);
        }
        assert_each_once(db, 12).await;
    })
    .await;
}

#[tokio::test]
async fn a_repeated_batch_stores_the_missing_items() {
    testkit::run(async |db| {
        let trades = ready(db, identified(db)).await;
        let batch: Vec<Trade> = (0..95).map(spread).collect();
        for n in [3, 17, 42, 43, 94] {
            trades.append(&123, &spread(n)).await.unwrap();
        }
        let appended = trades.append_many(&123, &batch).await.unwrap();
        assert_eq!((appended.items, appended.already_there), (90, 5));
        let appended = trades.append_many(&123, &batch).await.unwrap();
        assert_eq!((appended.items, appended.already_there, appended.opened), (0, 95, 0));
        assert_each_once(db, 95).await;

        let twice: Vec<Trade> = (90..105).chain(95..110).map(same_second).collect();
        let appended = trades.append_many(&123, &twice).await.unwrap();
        assert_eq!((appended.items, appended.already_there), (15, 15));
        assert_each_once(db, 110).await;
    })
    .await;
}

#[tokio::test]
async fn a_stream_and_joined_calls_recognize_items_too() {
    testkit::run(async |db| {
        let trades = ready(db, identified(db)).await;
        let twice = stream::iter((0..50).chain(0..60).map(|n| (123, spread(n))));
        let appended = trades.append_stream(twice).await.unwrap();
        assert_eq!((appended.items, appended.already_there), (60, 50));
        let again = stream::iter((0..70).map(|n| (123, spread(n))));
        let mut seen = 0;
        let appended = trades
            .append_stream(again)
            .on_progress(|progress| seen = progress.stored)
            .await
            .unwrap();
        assert_eq!((appended.items, appended.already_there, seen), (10, 60, 70));

        let results = join_all((60..100).chain(65..110).map(|n| {
            let trades = &trades;
            async move { (n, trades.append(&123, &spread(n)).await.unwrap().already_there) }
        }))
        .await;
        for n in 60..110 {
            let new = results.iter().filter(|(of, repeated)| *of == n && !repeated).count();
            assert_eq!(new, usize::from(n >= 70), "{n}");
        }
        assert_each_once(db, 110).await;
    })
    .await;
}

#[tokio::test]
async fn a_failed_batch_is_safe_to_retry() {
    testkit::run(async |db| {
        let trades = ready(db, identified(db)).await;
        let batch: Vec<Trade> = (0..64).map(spread).collect();
        for (command, skip) in [("findAndModify", 0), ("findAndModify", 1), ("insert", 0), ("find", 0)] {
            for applied in [false, true] {
                plain(db).delete_many(doc! {}).await.unwrap();
                for n in [1, 12, 40] {
                    trades.append(&123, &spread(n)).await.unwrap();
                }
                let fault = FailPoint::on(&[command]).skip(skip);
                // The first findAndModify matches an item that is stored, so it has no write to report.
                let fault = match (applied, command, skip) {
                    (false, ..) | (true, "find", _) | (true, "findAndModify", 0) => fault.error_code(96),
                    (true, ..) => fault.write_concern_error(64),
                };
                let fault = fault.enable(db).await;
                let error = trades.append_many(&123, &batch).await.expect_err(command);
                fault.disable().await;
                let prefix = error.stored_count().unwrap();
                let there = stored(db).await;
                assert!(
                    (0..i64::try_from(prefix).unwrap()).all(|n| there.contains_key(&n)),
                    "{command}"
                );
                let appended = trades.append_many(&123, &batch).await.unwrap();
                assert_eq!(appended.items + appended.already_there, 64);
                assert_each_once(db, 64).await;
            }
        }
    })
    .await;
}

/// The writers append in different orders, one by one and in batches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_writers_of_the_same_items_store_each_once() {
    type Item = fn(i64) -> Trade;
    let cases: [Item; 2] = [spread, same_second];
    testkit::run(async |db| {
        for trade in cases {
            plain(db).drop().await.unwrap();
            let trades = ready(db, identified(db)).await;
            let new = join_all((0..64_usize).map(|writer| {
                let trades = trades.clone();
                async move {
                    let mut items: Vec<i64> = (0..35).collect();
                    items.rotate_left(writer % 35);
                    let mut new = 0;
                    for part in items.chunks(if writer % 2 == 0 { 1 } else { 25 }) {
                        if let [n] = part {
                            new += u64::from(!trades.append(&123, &trade(*n)).await.unwrap().already_there);
                        } else {
                            let batch: Vec<Trade> = part.iter().copied().map(trade).collect();
                            new += trades.append_many(&123, &batch).await.unwrap().items;
                        }
                    }
                    new
                }
            }))
            .await;
            assert_each_once(db, 35).await;
            assert_eq!(new.iter().sum::<u64>(), 35, "each item is new to one writer");
        }
    })
    .await;
}

#[tokio::test]
async fn a_repeated_item_does_not_abort_the_transaction() {
    testkit::run(async |db| {
        let trades = ready(db, identified(db)).await;
        let batch: Vec<Trade> = (0..25).map(spread).collect();
        trades.append_many(&123, &batch).await.unwrap();
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        for (n, repeated) in [(0, true), (15, true), (24, true), (25, false), (25, true)] {
            let appended = trades.append(&123, &spread(n)).session(&mut session).await.unwrap();
            assert_eq!(appended.already_there, repeated, "{n}");
        }
        let more: Vec<Trade> = (20..40).map(spread).collect();
        let appended = trades.append_many(&123, &more).session(&mut session).await.unwrap();
        assert_eq!((appended.items, appended.already_there), (14, 6));
        session.commit_transaction().await.unwrap();
        assert_each_once(db, 40).await;
    })
    .await;
}

#[tokio::test]
async fn ids_of_every_type_identify_an_item_and_other_values_are_refused() {
    testkit::run(async |db| {
        let collection = db.collection::<Document>("trades");
        let trades = BucketRepository::<u32, Document>::builder(collection)
            .key_field("customerId")
            .items_field("history")
            .item_id_field("_id")
            .page_size(2)
            .build()
            .unwrap();
        trades.ensure_indexes().await.unwrap();
        for item in [
            doc! {},
            doc! { "_id": null },
            doc! { "_id": 1.5 },
            doc! { "_id": true },
            doc! { "_id": ["a"] },
            doc! { "_id": { "$ne": 1 } },
        ] {
            let batch = std::slice::from_ref(&item);
            for error in [
                trades.append(&123, &item).await.unwrap_err(),
                trades.append_many(&123, batch).await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::InvalidItemId, "{item}");
                assert!(error.is_invalid_input());
            }
        }
        assert_eq!(all(&plain(db)).await, Vec::<Document>::new());
        let ids = [
            Bson::Int32(7),
            Bson::Int64(1 << 40),
            Bson::String("7".into()),
            Bson::String("$count".into()),
            Bson::ObjectId(mongodb::bson::oid::ObjectId::new()),
            Bson::Binary(mongodb::bson::Binary::from_uuid(mongodb::bson::Uuid::new())),
            Bson::DateTime(at(SECOND)),
        ];
        let items: Vec<Document> = ids.iter().map(|id| doc! { "_id": id }).collect();
        for item in &items {
            assert!(!trades.append(&123, item).await.unwrap().already_there);
        }
        for item in &items {
            assert!(trades.append(&123, item).await.unwrap().already_there, "{item}");
        }
        assert_eq!(trades.append_many(&123, &items).await.unwrap().already_there, 7);
        // Integers of all widths are equal.
        assert!(trades.append(&123, &doc! { "_id": 7_i64 }).await.unwrap().already_there);
        // A shell writes numbers as doubles.
        let shell = doc! { "_id": "5_1698335223", "customerId": 5, "count": 1, "history": [{ "_id": 9.0 }] };
        plain(db).insert_one(shell).await.unwrap();
        let batch = [doc! { "_id": 9 }, doc! { "_id": 10 }];
        assert_eq!(trades.append_many(&5, &batch).await.unwrap().already_there, 1);
    })
    .await;
}

#[tokio::test]
async fn without_the_item_id_index_nothing_is_written() {
    testkit::run(async |db| {
        // The indexes of a repository without item ids.
        trades(db).await;
        let identified = identified(db).build().unwrap();
        let batch = [spread(0), spread(1)];
        for error in [
            identified.append(&123, &spread(0)).await.unwrap_err(),
            identified.append_many(&123, &batch).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::IndexMissing);
            assert!(error.to_string().contains("customerId_1_history.n_1"), "{error}");
        }
        assert_eq!(all(&plain(db)).await, Vec::<Document>::new());
        let created = identified.ensure_indexes().replace_settings().await.unwrap().created;
        assert_eq!(created, ["customerId_1_history.n_1"]);
        identified.append(&123, &spread(0)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn ensure_indexes_names_ids_that_are_stored_twice() {
    testkit::run(async |db| {
        let mut other = full_bucket(2);
        other.insert("_id", "123_0000000002");
        plain(db).insert_many([full_bucket(1), other]).await.unwrap();
        let error = identified(db).build().unwrap().ensure_indexes().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    })
    .await;
}
