//! Buckets of windows of time that are archived and restored, while late items open further buckets of their windows.

use std::time::Duration;

use futures::TryStreamExt;
use futures::future::join_all;
use mongo_patterns::ErrorKind::DuplicateKey;
use mongo_patterns::Repository;
use mongo_patterns::archive::Archive;
use mongo_patterns::bucket::{BucketRepository, BucketRepositoryBuilder, Window};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use super::repositories::of;
use support::common::{SECOND, Trade, Trades, all, at, patient};

const COLD: &str = "archivedTrades";
const KEY: u32 = 123;

fn builder_of(db: &TestDatabase, collection: &str) -> BucketRepositoryBuilder<u32, Trade> {
    let trades = BucketRepository::builder(of(db, collection)).key_field("customerId");
    let trades = trades.items_field("history").time_field("date").retry(patient());
    trades.page_size(3).window(Window::Hour)
}

/// Returns the buckets, those in the archive, and the archive.
async fn shop(db: &TestDatabase) -> ([Trades; 2], Archive<Document>) {
    let trades = ["trades", COLD].map(|name| builder_of(db, name).build().unwrap());
    let archive = Archive::builder(of(db, "trades"), of(db, COLD)).age_field("window");
    let archive = archive
        .older_than(Duration::from_secs(60))
        .retry(patient())
        .build()
        .unwrap();
    archive.ensure_indexes().await.unwrap();
    for trades in &trades {
        trades.ensure_indexes().await.unwrap();
    }
    (trades, archive)
}

/// Returns a trade that was made this number of seconds after the first.
fn trade(n: i64, second: i64) -> Trade {
    let date = at(SECOND + second);
    Trade { n, date }
}

async fn sorted(trades: &Trades) -> Vec<i64> {
    let found: Vec<_> = trades.verify().stream().try_collect().await.unwrap();
    assert!(found.is_empty(), "{found:?}");
    let mut numbers = Vec::new();
    for bucket in all(&trades.collection().clone_with_type()).await {
        let items = bucket.get_array("history").unwrap().iter();
        numbers.extend(items.map(|item| item.as_document().unwrap().get_i64("n").unwrap()));
    }
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn archived_buckets_join_those_of_late_items() {
    testkit::run(async |db| {
        let ([hot, cold], archive) = shop(db).await;
        for n in 0..4 {
            hot.append(&KEY, &trade(n, n)).await.unwrap();
        }
        assert_eq!(archive.run().await.unwrap().documents, 2);
        // One opens a bucket with the `_id` of the archived open one, and then all of another second.
        for (round, second) in [(0, 3), (1, 10)] {
            for n in 10 * (round + 1)..10 * (round + 1) + 1 + round {
                hot.append(&KEY, &trade(n, second)).await.unwrap();
            }
            let before = [all(&of(db, "trades")).await, all(&of(db, COLD)).await];
            let refused = archive.run().await;
            assert_eq!(refused.unwrap().conflicts, 1);
            assert_eq!([all(&of(db, "trades")).await, all(&of(db, COLD)).await], before);
            assert_eq!(archive.run().through(&cold).await.unwrap().documents, 1);
            assert!(sorted(&hot).await.is_empty());
            assert_eq!(sorted(&cold).await.len(), 5 + round as usize * 2);
            // Another process can set up its repositories.
            shop(db).await;
        }
        hot.append(&KEY, &trade(30, 5)).await.unwrap();
        hot.append(&KEY, &trade(31, 4000)).await.unwrap();
        let refused = archive.restore_many(doc! {}).await;
        assert_eq!(refused.unwrap_err().kind(), DuplicateKey);
        archive.run().through(&cold).await.unwrap();
        hot.append(&KEY, &trade(32, 6)).await.unwrap();
        hot.append(&KEY, &trade(33, 4001)).await.unwrap();
        archive.restore_many(doc! {}).through(&hot).await.unwrap();
        assert!(sorted(&cold).await.is_empty());
        assert_eq!(sorted(&hot).await, [0, 1, 2, 3, 10, 20, 21, 30, 31, 32, 33]);
        let counts = all(&of(db, "trades"))
            .await
            .into_iter()
            .map(|bucket| bucket.get_i32("count").unwrap());
        assert_eq!(counts.collect::<Vec<_>>(), [3, 3, 3, 2]);
        hot.append(&KEY, &trade(34, 7)).await.unwrap();
    })
    .await;
}

/// An item that was appended again after its bucket was archived is stored once. A different one is refused.
#[tokio::test]
async fn an_item_that_is_archived_already_is_stored_once() {
    testkit::run(async |db| {
        let (_, archive) = shop(db).await;
        let [hot, cold] = ["trades", COLD].map(|name| builder_of(db, name).item_id_field("n").build().unwrap());
        for trades in [&hot, &cold] {
            trades.ensure_indexes().replace_settings().await.unwrap();
        }
        hot.append(&KEY, &trade(1, 1)).await.unwrap();
        archive.run().await.unwrap();
        hot.append(&KEY, &trade(1, 1)).await.unwrap();
        hot.append(&KEY, &trade(2, 2)).await.unwrap();
        archive.restore_many(doc! {}).through(&hot).await.unwrap();
        assert_eq!(sorted(&hot).await, [1, 2]);
        archive.run().await.unwrap();
        hot.append(&KEY, &trade(1, 5)).await.unwrap();
        let before = all(&of(db, COLD)).await;
        let refused = archive.restore_many(doc! {}).through(&hot).await.unwrap_err();
        assert_eq!(refused.kind(), DuplicateKey);
        assert!(refused.to_string().contains("remove one of the two"), "{refused}");
        assert_eq!(all(&of(db, COLD)).await, before);
        assert_eq!(sorted(&hot).await, [1]);
    })
    .await;
}

/// Late items of two processes, while an archive moves their buckets there and back: each is stored once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_late_item_is_lost_beside_runs_and_restores() {
    testkit::run(async |db| {
        let ([hot, cold], archive) = shop(db).await;
        let processes = [(); 2].map(|()| builder_of(db, "trades").build().unwrap());
        let writers = (0..8).map(|task: i64| {
            let trades = processes[task as usize % 2].clone();
            tokio::spawn(async move {
                for n in 0..25 {
                    let n = task * 100 + n;
                    trades.append(&(task as u32 % 2), &trade(n, n % 7 * 600)).await.unwrap();
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let movers = (0..4).map(|task| {
            let (archive, hot, cold) = (archive.clone(), hot.clone(), cold.clone());
            tokio::spawn(async move {
                for _ in 0..4 {
                    match task % 2 {
                        0 => archive.run().through(&cold).chunk(3).await.map(drop).unwrap(),
                        _ => archive
                            .restore_many(doc! {})
                            .through(&hot)
                            .chunk(3)
                            .await
                            .map(drop)
                            .unwrap(),
                    }
                }
            })
        });
        let movers: Vec<_> = movers.collect();
        for task in join_all(writers.into_iter().chain(movers)).await {
            task.unwrap();
        }
        archive.restore_many(doc! {}).through(&hot).await.unwrap();
        assert!(sorted(&cold).await.is_empty());
        let mut expected: Vec<i64> = (0..8).flat_map(|task| (0..25).map(move |n| task * 100 + n)).collect();
        expected.sort_unstable();
        assert_eq!(sorted(&hot).await, expected);
    })
    .await;
}
