//! Expiry: deletions of old items, and a TTL index.

use futures::future::join_all;
use futures::stream;
use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, Mongod, MongodOptions, TestDatabase};
use mongodb::Client;
use mongodb::bson::{DateTime, Document, doc};
use std::time::Duration;

use crate::bucket::figures::*;
use support::bucket::figures::*;
use support::bucket::*;
use support::common::*;

async fn numbers(trades: &Trades, key: u32) -> Vec<i64> {
    let items: Vec<Trade> = collected(trades.items(&key).stream()).await;
    items.into_iter().map(|item| item.n).collect()
}

#[tokio::test]
async fn only_buckets_whose_items_are_all_old_are_deleted() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let items = trades_of(0..35);
        trades.append_many(&123, &items).await.unwrap();
        trades.append_many(&12, &items).await.unwrap();
        db.recorder().clear();
        for (second, buckets, first) in [(0, 0, 0), (9, 0, 0), (10, 1, 10), (10, 0, 10), (29, 1, 20), (30, 1, 30)] {
            db.recorder().clear();
            let deleted = trades.delete_key_before(&123, at(SECOND + second)).await.unwrap();
            assert_eq!(deleted.documents, buckets, "{second}");
            assert_eq!(db.recorder().names(), ["delete"]);
            assert_eq!(numbers(&trades, 123).await, (first..35).collect::<Vec<_>>());
        }
        let mut session = transaction(db).await;
        let deletion = trades.delete_key_before(&123, at(SECOND + 35)).session(&mut session);
        assert_eq!(deletion.await.unwrap().documents, 1);
        session.abort_transaction().await.unwrap();
        assert_eq!(numbers(&trades, 123).await, (30..35).collect::<Vec<_>>());
        // The open bucket too.
        assert_eq!(
            trades.delete_key_before(&123, at(SECOND + 35)).await.unwrap().documents,
            1
        );
        assert_eq!(numbers(&trades, 123).await, Vec::<i64>::new());
        assert_eq!(numbers(&trades, 12).await.len(), 35);
        trades.append(&123, &spread(40)).await.unwrap();
        assert_eq!(violations(&plain(db), 10).await, Vec::<Document>::new());
    })
    .await;
}

#[tokio::test]
async fn a_late_item_and_an_item_without_a_date_keep_their_bucket() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        for n in 0..10 {
            // The first item is the latest.
            let date = at(SECOND - n);
            trades.append(&1, &Trade { n, date }).await.unwrap();
        }
        let timeless = doc! {
            "_id": format!("1_{}", SECOND + 1), "customerId": 1, "count": 2,
            "history": [{ "n": 20_i64, "date": at(SECOND) }, { "n": 21_i64, "date": "long ago" }],
        };
        let other = doc! { "_id": format!("1_{}", SECOND + 2), "customerId": 1, "count": 0, "history": "none" };
        plain(db).insert_many([timeless]).await.unwrap();
        assert_eq!(trades.delete_key_before(&1, at(SECOND)).await.unwrap().documents, 0);
        assert_eq!(trades.delete_key_before(&1, at(SECOND + 1)).await.unwrap().documents, 1);
        assert_eq!(ids(&all(&plain(db)).await), [format!("1_{}", SECOND + 1)]);
        plain(db).delete_many(doc! {}).await.unwrap();
        plain(db).insert_one(other).await.unwrap();
        assert_eq!(trades.delete_before(DateTime::MAX).await.unwrap().documents, 0);
    })
    .await;
}

#[tokio::test]
async fn old_buckets_of_all_keys_are_deleted_in_chunks() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let items = (0..20_u32).flat_map(|key| (0..35).map(move |n| (key, spread(n))));
        trades.append_stream(stream::iter(items)).await.unwrap();
        // Ids of other programs, which have other types.
        let foreign = [doc! { "_id": 5 }, doc! { "_id": at(5) }];
        plain(db).insert_many(foreign).await.unwrap();
        db.recorder().clear();
        let mut seen = Vec::new();
        let deletion = trades.delete_before(at(SECOND + 20)).chunk(15);
        let deleted = deletion.on_progress(|at| seen.push(at.documents)).await.unwrap();
        assert_eq!((deleted.documents, seen), (40, vec![15, 30, 40]));
        assert_eq!(
            db.recorder().names(),
            ["find", "delete", "find", "delete", "find", "delete", "find"]
        );
        for key in 0..20 {
            assert_eq!(numbers(&trades, key).await, (20..35).collect::<Vec<_>>());
        }
        assert_eq!(trades.delete_before(at(SECOND + 20)).await.unwrap().documents, 0);
        let error = trades.delete_before(at(5)).chunk(0).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let timeless = untimed::<u32, Trade>(db).build().unwrap();
        for error in [
            timeless.delete_key_before(&1, at(5)).await.unwrap_err(),
            timeless.delete_before(at(5)).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Configuration);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_new_item_is_removed_while_64_tasks_append() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let old = trades_of(0..45);
        trades.append_many(&1, &old).await.unwrap();
        let new = (0..64_i64).map(|task| {
            let trades = &trades;
            async move {
                for n in 0..5 {
                    trades.append(&1, &spread(1000 + task * 5 + n)).await.unwrap();
                    let before = at(SECOND + 1000);
                    match task % 16 {
                        0 => drop(trades.delete_key_before(&1, before).await.unwrap()),
                        1 => drop(trades.delete_before(before).chunk(1).await.unwrap()),
                        _ => {}
                    }
                }
            }
        });
        join_all(new).await;
        let mut left = numbers(&trades, 1).await;
        left.retain(|n| *n >= 1000);
        left.sort_unstable();
        assert_eq!(left, (1000..1320).collect::<Vec<_>>());
        assert_eq!(violations(&plain(db), 10).await, Vec::<Document>::new());
    })
    .await;
}

#[tokio::test]
async fn an_exact_deletion_moves_the_later_items_up() {
    testkit::run(async |db| {
        let orders = prepared(db, figured(db)).await;
        for second in [0, 3, 10, 17, 34, 40] {
            plain(db).delete_many(doc! {}).await.unwrap();
            append_orders(&orders, 1, 35).await;
            let deleted = orders.delete_key_before(&1, at(SECOND + second)).exact().await.unwrap();
            // The last page has five items.
            let in_buckets = deleted.documents * 10 - if second == 40 { 5 } else { 0 };
            assert_eq!(in_buckets + deleted.items, u64::try_from(second.min(35)).unwrap());
            let left = collected(orders.items(&1).stream()).await;
            assert_eq!(left, orders_of(second.min(35)..35));
            check(db, &orders).await;
            let again = orders.delete_key_before(&1, at(SECOND + second)).exact().await.unwrap();
            assert_eq!((again.documents, again.items), (0, 0));
        }
        // In a transaction of the caller.
        append_orders(&orders, 1, 35).await;
        let mut session = transaction(db).await;
        let deletion = orders.delete_key_before(&1, at(SECOND + 13)).exact();
        assert_eq!(deletion.session(&mut session).await.unwrap().items, 3);
        session.abort_transaction().await.unwrap();
        check_totals(&orders.totals(&1).await.unwrap(), &orders_of(0..35));
    })
    .await;
}

fn expiring(db: &TestDatabase, seconds: u64) -> mongo_patterns::bucket::BucketRepositoryBuilder<u32, Document> {
    plain_builder(db).expire_after(Duration::from_secs(seconds))
}

#[tokio::test]
async fn the_index_of_an_expiry_is_created_and_a_changed_one_is_refused() {
    testkit::run(async |db| {
        let orders = prepared(db, expiring(db, 3600)).await;
        let text = orders.indexes()[0].to_string();
        let expected = r#"createIndex({ "figures.date.last": 1 }, { "name": "figures.date.last_1", "partialFilterExpression": { "figures.date.count": { "$gt": 0 } }, "expireAfterSeconds": 3600 })"#;
        assert!(text.contains(expected), "{text}");
        orders.append(&1, &order(1)).await.unwrap();
        assert_eq!(db.recorder().names(), ["listIndexes", "update"]);
        let date = doc! { "count": 1, "first": at(SECOND + 1), "last": at(SECOND + 1) };
        let stored = all(&plain(db)).await.remove(0);
        assert_eq!(stored.get_document("figures").unwrap(), &doc! { "date": date });
        let other = expiring(db, 60).build().unwrap();
        assert_eq!(other.ensure_indexes().await.unwrap_err().kind(), ErrorKind::SettingsMismatch);
        let replaced = other.ensure_indexes().replace_settings().await.unwrap_err();
        assert_eq!(replaced.kind(), ErrorKind::IndexMismatch, "{replaced}");
    })
    .await;
}

/// Waits until the collection has these keys only.
async fn until_keys(db: &mongodb::Database, keys: &[i32]) {
    let collection = db.collection::<Document>("trades");
    until("the server, which removes expired buckets,", async || {
        let found = all(&collection).await;
        let mut found: Vec<i32> = found
            .iter()
            .map(|bucket| bucket.get_i32("customerId").unwrap())
            .collect();
        found.sort_unstable();
        found == keys
    })
    .await;
}

#[tokio::test]
async fn a_bucket_expires_when_all_its_items_are_old() {
    let options = MongodOptions::new()
        .standalone()
        .argument("--setParameter=ttlMonitorSleepSecs=1");
    let mongod = Mongod::start(options).await.unwrap();
    let client = Client::with_uri_str(mongod.uri()).await.unwrap();
    let database = client.database("expiry");
    let orders = Orders::builder(database.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .item_id_field("n")
        .expire_after(Duration::from_secs(60))
        .build()
        .unwrap();
    let now = DateTime::now().timestamp_millis() / 1000;
    let aged = |n: i64, age: i64| doc! { "n": n, "date": at(now - age) };
    orders.ensure_indexes().await.unwrap();
    // Old items beside a new one, only old ones, and figures that do not cover all items.
    for (key, n, age) in [
        (1, 1, 0),
        (1, 2, 5000),
        (1, 3, 4000),
        (2, 4, 5000),
        (2, 5, 4000),
        (3, 6, 0),
    ] {
        orders.append(&key, &aged(n, age)).await.unwrap();
    }
    let uncovered = doc! { "$set": { "figures.date": { "count": -1, "last": at(now - 5000) } } };
    orders
        .collection()
        .update_one(doc! { "customerId": 3 }, uncovered)
        .await
        .unwrap();
    until_keys(&database, &[1, 3]).await;
    // Another pass of the server.
    orders.append(&4, &aged(7, 5000)).await.unwrap();
    until_keys(&database, &[1, 3]).await;
}
