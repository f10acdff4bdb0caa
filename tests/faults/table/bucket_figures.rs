//! Buckets with figures, and old buckets: every write keeps the figures, and `verify` reports those that are not those of the items.

use mongo_patterns::Repository;
use mongo_patterns::bucket::TimeUnit;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::bucket::{PAGE, bucket, builder, changes_of_items, found, inspect, read, repair};
use super::operation::Promise::{Atomic, Prefix, Reads, Steps};
use super::operation::{Call, Model, Of, Operations, calls};
use support::bucket::trades_of;
use support::common::{SECOND, Trades, all, at, spread};

/// Key 1 has two full pages and an open one, key 2 has one full page.
pub(super) struct Figured {
    stored: Collection<Document>,
    trades: Trades,
}

/// Returns the buckets whose figures are not those of their items.
fn wrong(buckets: &[Document]) -> Vec<String> {
    let is_wrong = |bucket: &&Document| {
        let items: Vec<&Document> = bucket
            .get_array("history")
            .unwrap()
            .iter()
            .filter_map(Bson::as_document)
            .collect();
        let numbers = || items.iter().map(|item| item.get_i64("n").unwrap());
        let dates = || items.iter().map(|item| *item.get_datetime("date").unwrap());
        let count = i32::try_from(items.len()).unwrap();
        let figures = bucket.get_document("figures").ok();
        let of = |field: &str| figures.and_then(|figures| figures.get_document(field).ok());
        let expected = doc! { "count": count, "max": numbers().max(), "sum": numbers().sum::<i64>() };
        let times = doc! { "count": count, "first": dates().min(), "last": dates().max() };
        of("n") != Some(&expected) || of("date") != Some(&times)
    };
    let wrong = buckets.iter().filter(is_wrong);
    wrong
        .map(|bucket| format!("{} Figures", bucket.get_str("_id").unwrap()))
        .collect()
}

impl AsRef<Trades> for Figured {
    fn as_ref(&self) -> &Trades {
        &self.trades
    }
}

impl Model for Figured {
    const PATTERN: &'static str = "bucket";
    const COLLECTIONS: &'static [&'static str] = &["trades"];

    fn new(of: Of<'_>) -> Self {
        let collection = of.collection("trades");
        let figured = builder(collection.clone())
            .item_id_field("n")
            .sum("n")
            .max("n")
            .first_and_last();
        Self {
            trades: figured.build().unwrap(),
            stored: collection,
        }
    }

    async fn fill(&self) {
        self.trades.ensure_indexes().await.unwrap();
        let buckets = [bucket(1, 0..3), bucket(1, 3..6), bucket(1, 6..7), bucket(2, 100..103)];
        self.stored.insert_many(buckets).await.unwrap();
        self.trades.refresh_figures().await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        inspect(&all(&self.stored).await, PAGE).0
    }

    async fn read(&self) -> Option<Vec<String>> {
        read(&self.trades).await
    }

    async fn damage(&self) -> Vec<String> {
        let buckets = all(&self.stored).await;
        [inspect(&buckets, PAGE).1, wrong(&buckets)].concat()
    }

    async fn found(&self) -> Vec<String> {
        found(&self.trades).await
    }

    async fn repair(&self) {
        repair(&self.trades).await;
    }
}

impl Operations for Figured {
    fn operations() -> Vec<Call<Self>> {
        let mut operations = calls! { Self;
            Atomic, "BucketRepository::append", "with figures", |m| m.trades.append(&1, &spread(7)).await;
            Prefix, "BucketRepository::append_many", "with figures", |m|
            m.trades.append_many(&1, &trades_of(7..15)).await;
            Steps, "BucketRepository::refresh_figures", "", |m|
                m.trades.refresh_figures().await.map(drop)
                => prepare(|m| {
                    let unset = doc! { "$unset": { "figures": "" } };
                    m.stored.update_many(doc! { "customerId": 1 }, unset).await.unwrap()
                });
            Steps, "BucketRepository::delete_key_before", "", |m| m.trades.delete_key_before(&1, at(SECOND + 6)).await;
            Atomic, "BucketRepository::delete_key_before", "exact", |m|
                m.trades.delete_key_before(&1, at(SECOND + 5)).exact().await;
            Steps, "BucketRepository::delete_before", "", |m|
                m.trades.delete_before(at(SECOND + 6)).chunk(1).await;
            Reads, "BucketRepository::totals", "", |m| m.trades.totals(&1).await;
            Reads, "BucketRepository::totals + ReadTotals::by", "", |m| m.trades.totals(&1).by(TimeUnit::Hour).await;
            Reads, "BucketRepository::totals", "of a range", |m| m.trades.totals(&1).from(at(SECOND + 2)).await;
        };
        operations.extend(changes_of_items("with figures"));
        operations
    }
}
