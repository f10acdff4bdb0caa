//! Concurrent writers of one key, and an observer.

use std::collections::BTreeSet;

use futures::future::join_all;
use mongo_patterns_testkit::{self as testkit, TestDatabase};

use support::bucket::*;
use support::common::*;

/// Writers that share these items.
struct Load {
    writers: i64,
    items: i64,
    page_size: u32,
    item: fn(i64) -> Trade,
}

impl Load {
    /// Runs the writers and an observer concurrently, checks all invariants, and returns the round trips of an append.
    async fn run(&self, db: &TestDatabase) -> f64 {
        plain(db).drop().await.unwrap();
        let trades = ready(db, builder(db).page_size(self.page_size)).await;
        let page_size = i32::try_from(self.page_size).unwrap();
        let collection = plain(db);
        let check = async || assert_eq!(violations(&collection, page_size).await, []);
        observed(check, self.write(|_| trades.clone())).await;
        let round_trips = db.recorder().round_trips() as f64 / self.items as f64;
        println!("round trips an append, {} writers: {round_trips:.2}", self.writers);
        self.check(&trades, db).await;
        round_trips
    }

    /// Appends all items, each writer by its repository.
    async fn write(&self, repository: impl Fn(i64) -> Trades) {
        let writers = (0..self.writers).map(|writer| {
            let trades = repository(writer);
            let (item, items, step) = (self.item, self.items, usize::try_from(self.writers).unwrap());
            tokio::spawn(async move {
                for n in (writer..items).step_by(step) {
                    trades.append(&0, &item(n)).await.unwrap();
                }
            })
        });
        for writer in join_all(writers).await {
            writer.unwrap();
        }
    }

    async fn check(&self, trades: &Trades, db: &TestDatabase) {
        let pages = trades.pages(&0).limit(10_000).await.unwrap().pages;
        let open = pages.iter().filter(|page| page.items.len() < self.page_size as usize);
        assert!(open.count() <= 1, "all pages but one are full");
        let mut stored = BTreeSet::new();
        for trade in pages.iter().flat_map(|page| &page.items) {
            assert!(stored.insert(trade.n), "an item is stored twice");
        }
        assert_eq!(stored, (0..self.items).collect::<BTreeSet<_>>(), "an item is lost");
        assert_eq!(violations(&plain(db), i32::try_from(self.page_size).unwrap()).await, []);
    }
}

const LOAD: Load = Load {
    writers: 64,
    items: 600,
    page_size: 10,
    item: spread,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn one_key_spread_over_seconds() {
    testkit::run(async |db| {
        for writers in [1, 64] {
            let round_trips = Load { writers, ..LOAD }.run(db).await;
            assert!(round_trips <= if writers == 1 { 1.0 } else { 2.0 }, "{round_trips}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn one_key_in_one_second() {
    testkit::run(async |db| {
        let item = same_second;
        for writers in [1, 64] {
            let round_trips = Load { writers, item, ..LOAD }.run(db).await;
            assert!(round_trips <= if writers == 1 { 1.01 } else { 2.5 }, "{round_trips}");
        }
    })
    .await;
}

/// Repositories of several processes do not share their cache of suffixes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn separate_repositories_in_one_second() {
    testkit::run(async |db| {
        // With pages of one, every append opens a bucket.
        for (page_size, items) in [(1, 200), (10, 400)] {
            plain(db).drop().await.unwrap();
            let (writers, item) = (8, same_second);
            let load = Load {
                writers,
                items,
                page_size,
                item,
            };
            let trades = ready(db, builder(db).page_size(page_size)).await;
            load.write(|_| builder(db).page_size(page_size).build().unwrap()).await;
            load.check(&trades, db).await;
        }
    })
    .await;
}
