//! Windows of time: batches, damage and its repair, migrations, concurrent writers.

use std::collections::BTreeSet;

use futures::future::join_all;
use mongo_patterns::bucket::{Problem, Window};
use mongo_patterns::{ErrorKind, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, doc};

use crate::bucket::windows::*;
use support::bucket::migration::{fill, flat, histories};
use support::bucket::*;
use support::common::*;

async fn check(db: &TestDatabase) {
    assert_eq!(violations_of(&all(&plain(db)).await, 3, 3600), Vec::<String>::new());
}

async fn numbers_of(trades: &Trades, key: u32) -> Vec<i64> {
    let mut numbers = numbers(&collected(trades.items(&key).stream()).await);
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn a_batch_opens_the_buckets_of_several_windows_at_once() {
    testkit::run(async |db| {
        let trades = ready(db, windowed(db)).await;
        let batch =
            |numbers: std::ops::Range<i64>| -> Vec<Trade> { numbers.map(|n| in_hour(n, n / 5, n % 5)).collect() };
        let appended = trades.append_many(&1, &batch(0..100)).await.unwrap();
        assert_eq!((appended.items, appended.opened), (100, 40));
        // The first page opens a bucket, and all others are inserted together.
        assert_eq!(db.recorder().names(), ["findAndModify", "insert"]);
        check(db).await;

        // Each of four windows has an open bucket with room for an item.
        db.recorder().clear();
        let more: Vec<Trade> = (100..108).map(|n| in_hour(n, n % 4, 9)).collect();
        let mut sorted = more.clone();
        sorted.sort_by_key(|trade| trade.date);
        let appended = trades.append_many(&1, &sorted).await.unwrap();
        assert_eq!((appended.items, appended.opened), (8, 4));
        assert!(db.recorder().round_trips() <= 8, "{:?}", db.recorder().names());
        check(db).await;

        // In any order, with any number of open buckets: these are no conflicts.
        let once = RetryPolicy::default().with_max_attempts(1);
        let once = windowed(db).retry(once).build().unwrap();
        let mixed: Vec<Trade> = (108..208).map(|n| in_hour(n, n % 7, n)).collect();
        db.recorder().clear();
        once.append_many(&1, &mixed).await.unwrap();
        assert!(db.recorder().round_trips() <= 170, "{}", db.recorder().round_trips());
        check(db).await;
        assert_eq!(numbers_of(&trades, 1).await, (0..208).collect::<Vec<_>>());
    })
    .await;
}

async fn problems(trades: &Trades) -> Vec<Problem> {
    let findings = collected(trades.verify().stream()).await;
    findings.into_iter().map(|finding| finding.problem).collect()
}

#[tokio::test]
async fn damaged_windows_are_found_and_repaired() {
    testkit::run(async |db| {
        let trades = ready(db, windowed(db)).await;
        let outside = |items: u64| Problem::ItemOutsideWindow { items };
        let trade = |second: i64| doc! { "n": second, "date": at(HOUR + second) };
        let damages = [
            (doc! { "window": "today" }, vec![Problem::Window]),
            (doc! { "window": at(HOUR + 5) }, vec![Problem::Window]),
            (doc! { "window": at(HOUR - 3600) }, vec![Problem::Window]),
            (doc! { "history.1": trade(3605) }, vec![outside(1)]),
            (
                doc! { "history": [trade(7300), trade(9000), trade(-1)] },
                vec![outside(3)],
            ),
            (
                doc! { "window": Bson::Null, "history": [trade(7300), trade(50), trade(-1)] },
                vec![Problem::Window],
            ),
        ];
        for (damage, expected) in damages {
            plain(db).delete_many(doc! {}).await.unwrap();
            let buckets = [(0, &[0, 1, 2][..]), (0, &[9]), (1, &[3, 4]), (2, &[5])];
            let buckets = buckets.map(|(hour, seconds)| bucket_of(hour, seconds));
            plain(db).insert_many(buckets).await.unwrap();
            assert_eq!(problems(&trades).await, []);
            let first = doc! { "_id": "123_1698332400" };
            let damaged = doc! { "$set": damage.clone() };
            plain(db).update_one(first, damaged).await.unwrap();
            let before: BTreeSet<String> = items(db).await;
            assert_eq!(problems(&trades).await, expected, "{damage}");
            let repaired = collected(trades.repair().stream()).await;
            assert_eq!(repaired.len(), 1);
            assert_eq!(repaired[0].unrepaired, None, "{damage}");
            assert_eq!(items(db).await, before, "{damage}");
            assert_eq!(problems(&trades).await, [], "{damage}");
            check(db).await;
        }

        // Two open buckets of a window, of which another program wrote one, without the window.
        plain(db).delete_many(doc! {}).await.unwrap();
        let mut foreign = bucket_of(0, &[20, 21]);
        foreign.remove("window");
        let buckets = [bucket_of(0, &[9]), foreign, bucket_of(1, &[3])];
        plain(db).insert_many(buckets).await.unwrap();
        let (not_full, several) = (Problem::NotFull { items: 1 }, Problem::SeveralOpen { open: 2 });
        assert_eq!(problems(&trades).await, [not_full, Problem::Window, several]);
        let repaired = collected(trades.repair().stream()).await;
        assert_eq!(repaired[0].written, 1);
        check(db).await;
        assert_eq!(ids(&all(&plain(db)).await), ["123_1698332409", "123_1698336003"]);

        // The corrected `_id` of a bucket is in a window that has an open bucket.
        let mut foreign = bucket_of(1, &[20]);
        foreign.insert("_id", "123_second");
        foreign.remove("window");
        plain(db).insert_one(foreign).await.unwrap();
        assert_eq!(problems(&trades).await.first(), Some(&Problem::IdFormat));
        let repaired = collected(trades.repair().stream()).await;
        assert_eq!(repaired[0].unrepaired, None);
        check(db).await;
        assert_eq!(ids(&all(&plain(db)).await), ["123_1698332409", "123_1698336003"]);
    })
    .await;
}

async fn items(db: &TestDatabase) -> BTreeSet<String> {
    let buckets = all(&plain(db)).await;
    let items = buckets
        .iter()
        .flat_map(|bucket| bucket.get_array("history").unwrap().clone());
    items.map(|item| item.to_string()).collect()
}

/// An append never goes to a bucket of another window, whatever its window field is.
#[tokio::test]
async fn an_open_bucket_of_another_window_is_reported() {
    testkit::run(async |db| {
        let trades = ready(db, windowed(db)).await;
        let mut foreign = bucket_of(5, &[9]);
        foreign.insert("window", at(HOUR));
        plain(db).insert_one(&foreign).await.unwrap();
        assert_refused(trades.append(&123, &in_hour(1, 0, 1)).await, ErrorKind::Corrupt);
        assert_eq!(all(&plain(db)).await, [foreign]);
        let repaired = collected(trades.repair_key(&123).stream()).await;
        assert_eq!(repaired.len(), 1);
        trades.append(&123, &in_hour(1, 0, 1)).await.unwrap();
        check(db).await;
    })
    .await;
}

#[tokio::test]
async fn the_validator_requires_the_window() {
    testkit::run(async |db| {
        let trades = windowed(db).build().unwrap();
        create_validated(db.database(), &trades).await;
        trades.ensure_indexes().await.unwrap();
        trades.append(&123, &in_hour(1, 0, 1)).await.unwrap();
        let mut without = bucket_of(5, &[9]);
        without.remove("window");
        assert!(plain(db).insert_one(without).await.is_err());
        plain(db).insert_one(bucket_of(5, &[9])).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_migration_writes_what_appends_write() {
    testkit::run(async |db| {
        let mut documents = Vec::new();
        for n in 0..80_i64 {
            let second = n * 397 % 20_000;
            documents.push(doc! { "_id": n, "customerId": i32::try_from(n % 3).unwrap(), "date": at(HOUR + second) });
        }
        fill(db, &documents).await;
        let window = Window::every(std::time::Duration::from_secs(1800));
        let trades = histories::<u32>(db).page_size(3).window(window).build().unwrap();
        let migrated = trades.migrate_from_flat(&flat(db)).keep_ids().await.unwrap();
        assert_eq!((migrated.keys, migrated.items), (3, 80));
        let found = collected(trades.verify().stream()).await;
        assert_eq!(found, []);
        let by_migration = all(&plain(db)).await;
        assert_eq!(by_migration.len() as u64, migrated.documents);
        let again = trades.migrate_from_flat(&flat(db)).keep_ids().await.unwrap();
        assert!(again.resumed && again.items == 80);

        plain(db).delete_many(doc! {}).await.unwrap();
        documents.sort_by_key(|document| *document.get_datetime("date").unwrap());
        for mut document in documents {
            let key = u32::try_from(document.remove("customerId").unwrap().as_i32().unwrap()).unwrap();
            trades.append(&key, &document).await.unwrap();
        }
        // In any order of fields: since 7.0, an upsert takes those of its filter in a random one.
        assert_eq!(all(&plain(db)).await, by_migration);
    })
    .await;
}

#[tokio::test]
async fn pages_of_windows_get_another_size() {
    testkit::run(async |db| {
        let small = ready(db, windowed(db)).await;
        for n in 0..60 {
            small.append(&1, &in_hour(n, n % 6, n)).await.unwrap();
        }
        let large = windowed(db).page_size(4).build().unwrap();
        large.migrate_page_size_from(3).await.unwrap();
        assert_eq!(violations_of(&all(&plain(db)).await, 4, 3600), Vec::<String>::new());
        assert_eq!(problems(&large).await, []);
        assert_refused(small.append(&1, &in_hour(60, 0, 60)).await, ErrorKind::IndexMissing);
        small.migrate_page_size_from(4).await.unwrap();
        check(db).await;
        assert_eq!(problems(&small).await, []);
        assert_eq!(numbers_of(&small, 1).await, (0..60).collect::<Vec<_>>());
    })
    .await;
}

/// 64 writers over several windows, one of them with items that are late by hours, and an observer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn concurrent_writers_open_one_bucket_a_window() {
    testkit::run(async |db| {
        plain(db).delete_many(doc! {}).await.unwrap();
        let trades = ready(db, windowed(db)).await;
        let collection = plain(db);
        let check_all = async || {
            let buckets = snapshot(&collection).await;
            assert_eq!(violations_of(&buckets, 3, 3600), Vec::<String>::new());
        };
        let writers = (0..64_i64).map(|writer| {
            let trades = trades.clone();
            tokio::spawn(async move {
                for n in (writer..320).step_by(64) {
                    // Most are of the newest hours.
                    let hour = if n % 5 == 0 { n % 3 } else { 5 + n / 80 };
                    trades.append(&1, &in_hour(n, hour, n % 60)).await.unwrap();
                }
            })
        });
        for writer in observed(check_all, join_all(writers)).await {
            writer.unwrap();
        }
        check(db).await;
        assert_eq!(numbers_of(&trades, 1).await, (0..320).collect::<Vec<_>>());
    })
    .await;
}
