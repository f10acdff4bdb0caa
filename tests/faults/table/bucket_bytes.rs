//! Buckets with a bound of bytes: a call closes a bucket without room, opens the next one, and counts the bytes of all.

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::bucket::BucketRepositoryBuilder;
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use super::bucket::{PAGE, bucket, builder, changes_of_items, found, inspect, read, repair};
use super::operation::Promise::{Atomic, Prefix, Steps};
use super::operation::{Call, Model, Of, Operations, calls, indexes, text};
use support::bucket::bytes::violations_of;
use support::bucket::trades_of;
use support::common::{SECOND, Trade, Trades, all, at, spread};

/// Three trades of 30 bytes fit, and a fourth does not.
const BOUND: u32 = 100;

fn bounded(collection: Collection<Document>) -> BucketRepositoryBuilder<u32, Trade> {
    builder(collection).page_size(5).max_bucket_bytes(BOUND)
}

/// Returns a bucket with the trades of these numbers, which is full if it has three.
fn with_bytes(key: i32, trades: std::ops::Range<i64>, bytes: i32) -> Document {
    let mut bucket = bucket(key, trades);
    bucket.insert("bytes", bytes);
    bucket
}

/// Returns the facts, and the violations of the count and the bytes.
fn inspect_bytes(buckets: &[Document]) -> (Vec<String>, Vec<String>) {
    (inspect(buckets, PAGE).0, violations_of(buckets, BOUND, 5))
}

/// Key 1 has two closed buckets, and an open one that has no room. Key 2 has one bucket.
pub(super) struct Bounded {
    stored: Collection<Document>,
    trades: Trades,
}

impl AsRef<Trades> for Bounded {
    fn as_ref(&self) -> &Trades {
        &self.trades
    }
}

impl Model for Bounded {
    const PATTERN: &'static str = "bucket";
    const COLLECTIONS: &'static [&'static str] = &["trades"];

    fn new(of: Of<'_>) -> Self {
        let collection = of.collection("trades");
        Self {
            trades: bounded(collection.clone()).item_id_field("n").build().unwrap(),
            stored: collection,
        }
    }

    async fn fill(&self) {
        self.trades.ensure_indexes().await.unwrap();
        let buckets = [
            with_bytes(1, 0..3, 100),
            with_bytes(1, 3..6, 100),
            with_bytes(1, 6..9, 90),
            with_bytes(2, 100..102, 60),
        ];
        self.stored.insert_many(buckets).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        inspect_bytes(&all(&self.stored).await).0
    }

    async fn read(&self) -> Option<Vec<String>> {
        read(&self.trades).await
    }

    async fn damage(&self) -> Vec<String> {
        let wrong = inspect_bytes(&all(&self.stored).await).1;
        wrong.into_iter().map(|_| "wrong".to_owned()).collect()
    }

    async fn found(&self) -> Vec<String> {
        let found = found(&self.trades).await;
        found.into_iter().map(|_| "wrong".to_owned()).collect()
    }

    async fn repair(&self) {
        repair(&self.trades).await;
    }
}

impl Operations for Bounded {
    fn operations() -> Vec<Call<Self>> {
        let mut operations = calls! { Self;
            Atomic, "BucketRepository::append", "that closes a bucket", |m| m.trades.append(&1, &spread(9)).await;
            Prefix, "BucketRepository::append_many", "that closes a bucket", |m|
            m.trades.append_many(&1, &trades_of(9..17)).await;
            Atomic, "BucketRepository::remove_item", "of a bucket with room", |m|
                m.trades.remove_item(&2, 101_i64).await;
            Atomic, "BucketRepository::remove_before", "exact, with bytes", |m|
                m.trades.remove_before(&1, at(SECOND + 5)).exact().await;
            Steps, "BucketRepository::repair + Repair::stream", "with bytes", |m|
                m.trades.repair().concurrency(1).stream().try_collect::<Vec<_>>().await
                => prepare(|m| {
                    let open = doc! { "_id": format!("1_{}", SECOND + 6) };
                    m.stored.update_one(open, doc! { "$set": { "bytes": 7 } }).await.unwrap()
                });
        };
        operations.extend(changes_of_items("with bytes"));
        operations
    }
}

/// Pages of five that get a bound.
pub(super) struct Unbounded {
    buckets: Collection<Document>,
    without: Trades,
    trades: Trades,
}

impl Model for Unbounded {
    const PATTERN: &'static str = "bucket";
    const COLLECTIONS: &'static [&'static str] = &["trades"];

    fn new(of: Of<'_>) -> Self {
        let buckets = of.collection("trades");
        Self {
            without: builder(buckets.clone()).page_size(5).build().unwrap(),
            trades: bounded(buckets.clone()).build().unwrap(),
            buckets,
        }
    }

    async fn fill(&self) {
        let _ = self.buckets.drop_indexes().await;
        self.without.ensure_indexes().replace_settings().await.unwrap();
        let buckets = [bucket(1, 0..5), bucket(1, 5..9), bucket(2, 100..102)];
        self.buckets.insert_many(buckets).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let mut facts = inspect(&all(&self.buckets).await, 0).0;
        facts.extend(indexes(&self.buckets).await);
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        read(&self.trades).await
    }
}

impl Operations for Unbounded {
    fn operations() -> Vec<Call<Self>> {
        calls! { Self;
            Steps, "BucketRepository::migrate_page_size_from", "to a bound of bytes", |m| {
                let changed = m.trades.migrate_page_size_from(5).concurrency(1).await;
                let changed = text(changed)?;
                let found: Vec<_> = m.trades.verify().stream().try_collect().await?;
                assert!(found.is_empty(), "{found:?}");
                Ok(changed)
            };
        }
    }
}
