//! Buckets: migrations from and to a flat collection, and to another page size.

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::bucket::BucketRepository;
use mongodb::bson::{Document, doc};
use mongodb::{Collection, IndexModel};

use super::bucket::{bucket, builder, fact, found, inspect, read, trade};
use super::operation::Promise::{Reads, Steps};
use super::operation::{Call, Model, Of, Operations, UNREAD, calls, documents, indexes, text};
use support::common::{SECOND, Trade, Trades, all};

/// A flat collection of two keys, and buckets of others.
pub(super) struct Migrations {
    flat: Collection<Document>,
    back: Collection<Document>,
    buckets: Collection<Document>,
    records: Collection<Document>,
    skipped: Collection<Document>,
    trades: Trades,
}

impl Model for Migrations {
    const PATTERN: &'static str = "bucket";
    const COLLECTIONS: &'static [&'static str] = &["flat", "back", "trades", "mongo_patterns", "skipped"];

    fn new(of: Of<'_>) -> Self {
        let buckets = of.collection("trades");
        Self {
            flat: of.collection("flat"),
            back: of.collection("back"),
            records: of.collection("mongo_patterns"),
            skipped: of.collection("skipped"),
            trades: builder(buckets.clone()).build().unwrap(),
            buckets,
        }
    }

    async fn fill(&self) {
        let of_key = IndexModel::builder().keys(doc! { "customerId": 1, "date": 1 }).build();
        self.flat.create_index(of_key).await.unwrap();
        self.trades.ensure_indexes().await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let [flat, back, buckets, _] = documents([&self.flat, &self.back, &self.buckets, &self.records]).await;
        let of = |name: &'static str, documents: Vec<Document>| {
            let facts = documents.into_iter().map(move |document| {
                let date = document.get_datetime("date").unwrap().timestamp_millis() / 1000 - SECOND;
                let key = document.get_i32("customerId").unwrap();
                format!(
                    "{UNREAD}{name} {}",
                    fact(key.into(), document.get_i64("n").unwrap(), date)
                )
            });
            facts.collect::<Vec<_>>()
        };
        [of("flat", flat), of("back", back), inspect(&buckets, 3).0].concat()
    }

    async fn read(&self) -> Option<Vec<String>> {
        read(&self.trades).await
    }

    async fn damage(&self) -> Vec<String> {
        inspect(&all(&self.buckets).await, 3).1
    }

    async fn found(&self) -> Vec<String> {
        found(&self.trades).await
    }
}

impl Operations for Migrations {
    fn operations() -> Vec<Call<Self>> {
        /// Stores seven items of key 1, and three of key 2.
        fn flat(m: &Migrations) -> futures::future::LocalBoxFuture<'_, ()> {
            Box::pin(async move {
                let documents = (0..10).map(|n| {
                    let mut document = doc! { "_id": n, "customerId": if n < 7 { 1 } else { 2 } };
                    document.extend(trade(n.into()));
                    document
                });
                m.flat.insert_many(documents).await.unwrap();
            })
        }
        fn buckets(m: &Migrations) -> futures::future::LocalBoxFuture<'_, ()> {
            Box::pin(async move {
                let buckets = [bucket(1, 0..3), bucket(1, 3..6), bucket(1, 6..7), bucket(2, 7..10)];
                m.buckets.insert_many(buckets).await.unwrap();
            })
        }
        calls! { Migrations;
            Steps, "BucketRepository::migrate_from_flat", "in two chunks", |m|
                m.trades.migrate_from_flat(&m.flat).chunk(5).await => prepare(flat);
            Reads, "BucketRepository::migrate_from_flat + MigrateFromFlat::plan", "", |m|
                m.trades.migrate_from_flat(&m.flat).chunk(5).plan().await
                    .map(|plan| (plan.migrated.items, plan.commands.len()))
                => prepare(flat);
            Steps, "BucketRepository::migrate_from_flat", "with a list of invalid documents and a filter", |m| {
                let migration = m.trades.migrate_from_flat(&m.flat).chunk(5).skip_invalid(&m.skipped);
                migration.filter(doc! { "_id": { "$gte": 0 } }).await
            } => prepare(flat);
            Reads, "BucketRepository::migrate_from_flat + MigrateFromFlat::find_invalid", "", |m|
                m.trades.migrate_from_flat(&m.flat).find_invalid(None).await
                    .map(|found| (found.checked, found.invalid.total()))
                => prepare(flat);
            Steps, "BucketRepository::migrate_to_flat", "in two chunks", |m|
                m.trades.migrate_to_flat(&m.back).chunk(5).await => prepare(buckets);
            Reads, "BucketRepository::migrate_to_flat + MigrateToFlat::plan", "", |m|
                m.trades.migrate_to_flat(&m.back).chunk(5).plan().await
                    .map(|plan| (plan.migrated.items, plan.commands.len()))
                => prepare(buckets);
        }
    }
}

/// Pages of three that are migrated to another size.
pub(super) struct Sizes {
    buckets: Collection<Document>,
    three: Trades,
    four: Trades,
    two: Trades,
}

impl Model for Sizes {
    const PATTERN: &'static str = "bucket";
    const COLLECTIONS: &'static [&'static str] = &["trades"];

    fn new(of: Of<'_>) -> Self {
        let buckets = of.collection("trades");
        let of_size = |size| builder(buckets.clone()).page_size(size).build().unwrap();
        Self {
            three: of_size(3),
            four: of_size(4),
            two: of_size(2),
            buckets,
        }
    }

    async fn fill(&self) {
        // The last case has left indexes of its size too. Before the first case, the collection does not exist.
        let _ = self.buckets.drop_indexes().await;
        self.three.ensure_indexes().replace_settings().await.unwrap();
        let buckets = [bucket(1, 0..3), bucket(1, 3..6), bucket(1, 6..7), bucket(2, 100..103)];
        self.buckets.insert_many(buckets).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let mut facts = inspect(&all(&self.buckets).await, 0).0;
        facts.extend(indexes(&self.buckets).await);
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        read(&self.three).await
    }

    async fn found(&self) -> Vec<String> {
        let indexes = self.buckets.list_index_names().await.unwrap_or_default();
        let is_there = |trades: &BucketRepository<u32, Trade>| indexes.contains(&trades.indexes()[0].indexes()[0].name);
        let whole = [&self.two, &self.three, &self.four].map(is_there);
        match whole {
            // The migration is finished.
            [false, false, true] => found(&self.four).await,
            _ => Vec::new(),
        }
    }
}

impl Operations for Sizes {
    fn operations() -> Vec<Call<Self>> {
        calls! { Sizes;
            Steps, "BucketRepository::migrate_page_size_from", "to larger pages", |m| {
                let changed = m.four.migrate_page_size_from(3).concurrency(1).await;
                let changed = text(changed)?;
                let found: Vec<_> = m.four.verify().stream().try_collect().await?;
                assert!(found.is_empty(), "{found:?}");
                Ok(changed)
            };
            Reads, "BucketRepository::migrate_page_size_from + MigratePageSize::plan", "", |m|
                m.two.migrate_page_size_from(3).plan().await.map(|plan| (plan.migrated.keys, plan.commands.len()));
            Steps, "BucketRepository::migrate_page_size_from", "to smaller pages", |m| {
                let changed = m.two.migrate_page_size_from(3).concurrency(1).await;
                let changed = text(changed)?;
                let found: Vec<_> = m.two.verify().stream().try_collect().await?;
                assert!(found.is_empty(), "{found:?}");
                Ok(changed)
            };
        }
    }
}
