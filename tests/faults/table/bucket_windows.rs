//! Buckets with windows of four seconds: a call writes to one window, or to several, and each has one open bucket.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::bucket::Window;
use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};

use super::bucket::{PAGE, bucket, builder, found, inspect, read, repair};
use super::operation::Promise::{Atomic, Prefix, Reads, Steps};
use super::operation::{Call, Model, Of, Operations, calls};
use support::bucket::trades_of;
use support::common::{SECOND, Trade, Trades, all, at, spread};

/// Key 1 has a full and an open bucket in one window, and an open one in the next, key 2 has one full bucket.
pub(super) struct Windowed {
    stored: Collection<Document>,
    trades: Trades,
}

fn start(second: i64) -> DateTime {
    at(second - second % 4)
}

fn in_window(key: i32, trades: std::ops::Range<i64>) -> Document {
    let window = start(SECOND + trades.start);
    let mut bucket = bucket(key, trades);
    bucket.insert("window", window);
    bucket
}

impl Model for Windowed {
    const PATTERN: &'static str = "bucket";
    const COLLECTIONS: &'static [&'static str] = &["trades"];

    fn new(of: Of<'_>) -> Self {
        let collection = of.collection("trades");
        let windowed = builder(collection.clone()).item_id_field("n");
        let windowed = windowed.window(Window::every(std::time::Duration::from_secs(4)));
        Self {
            trades: windowed.build().unwrap(),
            stored: collection,
        }
    }

    async fn fill(&self) {
        self.trades.ensure_indexes().await.unwrap();
        let buckets = [
            in_window(1, 1..4),
            in_window(1, 4..5),
            in_window(1, 5..7),
            in_window(2, 101..104),
        ];
        self.stored.insert_many(buckets).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        inspect(&all(&self.stored).await, PAGE).0
    }

    async fn read(&self) -> Option<Vec<String>> {
        read(&self.trades).await
    }

    async fn damage(&self) -> Vec<String> {
        let mut windows = BTreeMap::<DateTime, Vec<Document>>::new();
        for bucket in all(&self.stored).await {
            let window = *bucket.get_datetime("window").unwrap();
            windows.entry(window).or_default().push(bucket);
        }
        windows.values().flat_map(|buckets| inspect(buckets, PAGE).1).collect()
    }

    async fn found(&self) -> Vec<String> {
        found(&self.trades).await
    }

    async fn repair(&self) {
        repair(&self.trades).await;
    }
}

impl Operations for Windowed {
    fn operations() -> Vec<Call<Self>> {
        const APPEND: &str = "BucketRepository::append";
        calls! { Self;
            Atomic, APPEND, "of a late item, with windows", |m|
                m.trades.append(&1, &Trade { n: 20, date: at(SECOND + 2) }).await;
            Atomic, APPEND, "into a new window", |m| m.trades.append(&1, &spread(9)).await;
            Prefix, "BucketRepository::append_many", "into three windows", |m|
                m.trades.append_many(&1, &trades_of(7..15)).await;
            Atomic, "BucketRepository::remove_item", "with windows", |m| m.trades.remove_item(&1, 2_i64).await;
            Atomic, "BucketRepository::replace_item", "with windows", |m|
                m.trades.replace_item(&1, &Trade { n: 2, date: at(SECOND + 3) }).await;
            Atomic, "BucketRepository::update_item", "with windows", |m|
                m.trades.update_item(&1, 2_i64, doc! { "$max": { "date": at(SECOND + 4) } }).await;
            Atomic, "BucketRepository::delete_key_before", "exact, with windows", |m|
                m.trades.delete_key_before(&1, at(SECOND + 6)).exact().await;
            Steps, "BucketRepository::repair", "with windows", |m|
                m.trades.repair().stream().try_collect::<Vec<_>>().await
                => prepare(|m| {
                    let first = doc! { "_id": format!("1_{}", SECOND + 1) };
                    m.stored.update_one(first, doc! { "$set": { "count": 7 } }).await.unwrap()
                });
            Reads, "BucketRepository::items + Items::stream", "of a range of windows", |m|
                m.trades.items(&1).from(at(SECOND + 3)).until(at(SECOND + 6)).stream().try_collect::<Vec<_>>().await;
        }
    }
}
