//! Concurrent writers, and an observer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mongo_patterns::bucket::IdPolicy;
use mongo_patterns_testkit::{self as testkit, TestDatabase};

use crate::common::support::*;

struct Load {
    writers: i64,
    keys: i64,
    items: i64,
    page_size: u32,
    policy: IdPolicy,
    item: fn(i64) -> Trade,
}

impl Load {
    /// Runs the writers and an observer concurrently, checks all invariants, and returns the round trips of an append.
    async fn run(&self, db: &TestDatabase) -> f64 {
        let trades = ready(db, builder(db).page_size(self.page_size).id_policy(self.policy)).await;
        let page_size = i32::try_from(self.page_size).unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let observer = tokio::spawn({
            let (collection, done) = (plain(db), Arc::clone(&done));
            async move {
                let mut reads = 0;
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(violations(&collection, page_size).await, []);
                    reads += 1;
                }
                reads
            }
        });
        let writers: Vec<_> = (0..self.writers)
            .map(|writer| {
                let trades = trades.clone();
                let (item, keys, items, step) = (self.item, self.keys, self.items, self.writers);
                tokio::spawn(async move {
                    for n in (writer..items).step_by(usize::try_from(step).unwrap()) {
                        trades
                            .append(&u32::try_from(n % keys).unwrap(), &item(n))
                            .await
                            .unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(observer.await.unwrap() > 0, "the observer read while they wrote");
        let round_trips = db.recorder().round_trips();
        self.check(&trades, db).await;
        round_trips as f64 / self.items as f64
    }

    async fn check(&self, trades: &Trades, db: &TestDatabase) {
        let page_size = usize::try_from(self.page_size).unwrap();
        let mut stored: BTreeMap<i64, u32> = BTreeMap::new();
        for key in 0..u32::try_from(self.keys).unwrap() {
            let pages = trades.pages(&key).limit(10_000).await.unwrap().pages;
            let full = pages.iter().filter(|page| page.items.len() == page_size).count();
            assert!(pages.len() - full <= 1, "all pages but one are full");
            for trade in pages.iter().flat_map(|page| &page.items) {
                assert_eq!(stored.insert(trade.n, key), None, "an item is stored twice");
            }
        }
        let expected: BTreeMap<i64, u32> = (0..self.items)
            .map(|n| (n, u32::try_from(n % self.keys).unwrap()))
            .collect();
        assert_eq!(stored, expected, "an item is lost");
        assert_eq!(violations(&plain(db), i32::try_from(self.page_size).unwrap()).await, []);
    }
}

const LOAD: Load = Load {
    writers: 64,
    keys: 1,
    items: 600,
    page_size: 10,
    policy: IdPolicy::ItemTime,
    item: spread,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn one_key_spread_over_seconds() {
    testkit::run(async |db| {
        for writers in [1, 64] {
            plain(db).drop().await.unwrap();
            let round_trips = Load { writers, ..LOAD }.run(db).await;
            println!("round trips an append, {writers} writers, spread: {round_trips:.2}");
            assert!(round_trips <= if writers == 1 { 1.0 } else { 2.0 }, "{round_trips}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn one_key_in_one_second() {
    testkit::run(async |db| {
        for writers in [1, 64] {
            plain(db).drop().await.unwrap();
            let load = Load {
                writers,
                item: same_second,
                ..LOAD
            };
            let round_trips = load.run(db).await;
            println!("round trips an append, {writers} writers, one second: {round_trips:.2}");
            assert!(round_trips <= if writers == 1 { 1.01 } else { 2.5 }, "{round_trips}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_keys() {
    testkit::run(async |db| {
        for item in [spread, same_second] {
            plain(db).drop().await.unwrap();
            Load { keys: 20, item, ..LOAD }.run(db).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn monotonic_ids() {
    testkit::run(async |db| {
        for item in [spread, same_second] {
            plain(db).drop().await.unwrap();
            let load = Load {
                items: 300,
                policy: IdPolicy::Monotonic,
                item,
                ..LOAD
            };
            load.run(db).await;
        }
    })
    .await;
}

/// Every append opens a bucket, so concurrent appends collide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_one() {
    testkit::run(async |db| {
        for item in [spread, same_second] {
            plain(db).drop().await.unwrap();
            let round_trips = Load {
                items: 320,
                page_size: 1,
                item,
                ..LOAD
            }
            .run(db)
            .await;
            println!("round trips an append, 64 writers, pages of one: {round_trips:.2}");
        }
    })
    .await;
}

/// Repositories of several processes do not share their cache of suffixes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn separate_repositories_in_one_second() {
    testkit::run(async |db| {
        trades(db).await;
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let trades = builder(db).build().unwrap();
                tokio::spawn(async move {
                    for n in 0..50 {
                        trades.append(&0, &same_second(writer * 50 + n)).await.unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let load = Load {
            items: 400,
            item: same_second,
            ..LOAD
        };
        load.check(&trades(db).await, db).await;
    })
    .await;
}

/// A task that is dropped during an append, as by a timeout, does not affect others. Its own item is stored or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_that_are_cancelled() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let mut acknowledged = Vec::new();
        for round in 0..20_i64 {
            let writers: Vec<_> = (0..8)
                .map(|writer| {
                    let (trades, n) = (trades.clone(), round * 8 + writer);
                    let append = async move { trades.append(&0, &same_second(n)).await.map(|_| n).unwrap() };
                    tokio::spawn(async move {
                        if writer % 2 == 0 {
                            return Some(append.await);
                        }
                        let patience = Duration::from_micros(u64::try_from(writer - 1).unwrap() * 500);
                        tokio::time::timeout(patience, append).await.ok()
                    })
                })
                .collect();
            for writer in writers {
                acknowledged.extend(writer.await.unwrap());
            }
        }
        assert!(
            !acknowledged.is_empty() && acknowledged.len() < 160,
            "some were cancelled, some were not"
        );
        trades.append(&0, &same_second(1000)).await.unwrap();
        acknowledged.push(1000);

        let pages = trades.pages(&0).limit(1000).await.unwrap().pages;
        let mut stored: Vec<i64> = pages.iter().flat_map(|page| &page.items).map(|trade| trade.n).collect();
        stored.sort_unstable();
        assert!(stored.is_sorted_by(|a, b| a < b), "an item is stored twice");
        assert!(
            acknowledged.iter().all(|n| stored.binary_search(n).is_ok()),
            "an acknowledged item is lost"
        );
        assert_eq!(violations(&plain(db), 10).await, []);
    })
    .await;
}
