//! Concurrent writers of one key, and an observer; and writers that append, change and remove, against a model in memory.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use mongo_patterns::bucket::Finding;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{DateTime, Document, doc};

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
        let pages = trades.buckets(&0).limit(10_000).page().await.unwrap().items;
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

const WRITERS: i64 = 64;
const CALLS: u64 = 10;
const KEYS: [u32; 3] = [1, 12, 123];

/// The expected items of a writer: their dates, by key and id.
type Model = BTreeMap<(u32, i64), DateTime>;

/// A pseudo-random sequence, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn item_of(&mut self, model: &Model) -> Option<(u32, i64)> {
        let at = self.below(model.len().max(1) as u64);
        model.keys().nth(usize::try_from(at).unwrap()).copied()
    }
}

async fn write(trades: Trades, writer: i64) -> Model {
    let mut random = Random(u64::try_from(writer).unwrap());
    let mut model = Model::new();
    let mut next = writer * 1_000_000;
    let mut new = |count: u64, second: i64| -> Vec<Trade> {
        let first = next;
        next += i64::try_from(count).unwrap();
        (first..next)
            .map(|n| Trade {
                n,
                date: at(SECOND + second),
            })
            .collect()
    };
    for _ in 0..CALLS {
        let key = KEYS[usize::try_from(random.below(3)).unwrap()];
        let second = i64::try_from(random.below(50)).unwrap();
        match random.below(10) {
            0..4 => {
                let items = new(1, second);
                assert!(!trades.append(&key, &items[0]).await.unwrap().already_there);
                model.insert((key, items[0].n), items[0].date);
            }
            4..6 => {
                let items = new(random.below(12) + 1, second);
                trades.append_many(&key, &items).await.unwrap();
                model.extend(items.iter().map(|trade| ((key, trade.n), trade.date)));
            }
            6 => {
                // An item that is stored already, as after an unknown outcome.
                let Some((key, n)) = random.item_of(&model) else {
                    continue;
                };
                let trade = Trade { n, date: at(SECOND) };
                assert!(trades.append(&key, &trade).await.unwrap().already_there);
            }
            7 => {
                let Some((key, n)) = random.item_of(&model) else {
                    continue;
                };
                let changed = Trade {
                    n,
                    date: at(SECOND + 1000 + second),
                };
                trades.replace_item(&key, &changed).await.unwrap();
                model.insert((key, n), changed.date);
            }
            _ => {
                let Some((key, n)) = random.item_of(&model) else {
                    continue;
                };
                assert!(trades.remove_item(&key, n).await.unwrap().found);
                model.remove(&(key, n));
            }
        }
    }
    model
}

async fn stored(db: &TestDatabase) -> Model {
    let mut stored = Model::new();
    for bucket in all(&plain(db)).await {
        let key = u32::try_from(bucket.get_i32("customerId").unwrap()).unwrap();
        for item in bucket.get_array("history").unwrap() {
            let item = item.as_document().unwrap();
            let item = ((key, item.get_i64("n").unwrap()), *item.get_datetime("date").unwrap());
            assert_eq!(stored.insert(item.0, item.1), None, "stored twice");
        }
    }
    stored
}

async fn everything_at_once(db: &TestDatabase) {
    let trades = ready(db, builder(db).item_id_field("n").page_size(5)).await;
    let collection = plain(db);
    let check = async || assert_eq!(violations(&collection, 5).await, Vec::<Document>::new());
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(trades.clone(), writer)));
    let models = observed(check, join_all(writers)).await;
    let model: Model = models.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(stored(db).await, model);
    let findings: Vec<Finding> = collected(trades.verify().stream()).await;
    assert_eq!(findings, []);
    let open = plain(db).count_documents(doc! { "count": { "$lt": 5 } }).await.unwrap();
    assert!(open <= KEYS.len() as u64, "every other page is full");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn writers_of_all_kinds() {
    testkit::run(everything_at_once).await;
}
