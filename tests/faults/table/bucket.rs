//! Buckets: histories in pages of three.

use futures::TryStreamExt;
use futures::future::try_join_all;
use futures::stream::iter;
use mongo_patterns::bucket::{BucketRepository, BucketRepositoryBuilder};
use mongo_patterns::{Error, Repository};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Atomic, Prefix, PrefixOnce, Reads, Steps};
use super::operation::{Call, Model, Of, calls, indexes, retry_policy, serialized};
use support::bucket::trades_of;
use support::common::{SECOND, Trade, Trades, all, at, integer, spread};

pub(super) const PAGE: usize = 3;

/// Key 1 has two full pages and an open one, key 2 has one full page.
pub(super) struct Histories {
    pub(super) stored: Collection<Document>,
    /// With item ids.
    pub(super) with_ids: Trades,
    pub(super) plain: Trades,
}

pub(super) fn builder(collection: Collection<Document>) -> BucketRepositoryBuilder<u32, Trade> {
    BucketRepository::builder(collection)
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .page_size(PAGE as u32)
        .retry(retry_policy())
}

/// Returns a bucket with the trades of these numbers.
pub(super) fn bucket(key: i32, trades: std::ops::Range<i64>) -> Document {
    let history: Vec<Bson> = trades.clone().map(|n| trade(n).into()).collect();
    doc! {
        "_id": format!("{key}_{}", SECOND + trades.start),
        "customerId": key,
        "count": history.len() as i32,
        "history": history,
    }
}

pub(super) fn trade(n: i64) -> Document {
    doc! { "n": n, "date": at(SECOND + n) }
}

pub(super) fn fact(key: i64, n: i64, date: i64) -> String {
    format!("{key}: {n:04} of {date}")
}

/// Returns the items of stored buckets, and the violations in the buckets.
pub(super) fn inspect(buckets: &[Document], page: usize) -> (Vec<String>, Vec<String>) {
    let (mut items, mut wrong) = (Vec::new(), Vec::new());
    let mut open = std::collections::BTreeMap::<i64, Vec<&str>>::new();
    for bucket in buckets {
        let (id, history) = (bucket.get_str("_id").unwrap(), bucket.get_array("history").unwrap());
        let (key, count) = (
            integer(bucket.get("customerId").unwrap()),
            integer(bucket.get("count").unwrap()),
        );
        for item in history.iter().map(|item| item.as_document().unwrap()) {
            let date = item.get_datetime("date").unwrap().timestamp_millis() / 1000 - SECOND;
            items.push(fact(key, integer(item.get("n").unwrap()), date));
        }
        if count != history.len() as i64 {
            wrong.push(format!("{id} counts"));
        }
        if history.is_empty() || history.len() > page {
            wrong.push(format!("{id} size"));
        }
        if history.len() < page {
            open.entry(key).or_default().push(id);
        }
    }
    wrong.extend(
        open.values()
            .filter(|ids| ids.len() > 1)
            .map(|ids| format!("{} open", ids.len())),
    );
    (items, wrong)
}

pub(super) async fn read(trades: &Trades) -> Option<Vec<String>> {
    let mut read = Vec::new();
    for key in 1..=4_u32 {
        let items: Result<Vec<Trade>, Error> = trades.items(&key).stream().try_collect().await;
        let items = match items {
            Err(error) if error.is_corrupt() => return None,
            items => items.unwrap(),
        };
        let facts = items
            .iter()
            .map(|item| fact(key.into(), item.n, item.date.timestamp_millis() / 1000 - SECOND));
        read.extend(facts);
    }
    Some(read)
}

pub(super) async fn repair(trades: &Trades) {
    let repaired: Result<Vec<_>, _> = trades.repair().stream().try_collect().await;
    let repaired = match repaired {
        Err(error) if error.is_setup_error() => return,
        repaired => repaired.unwrap(),
    };
    assert!(
        repaired.iter().all(|repaired| repaired.unrepaired.is_none()),
        "{repaired:?}"
    );
}

/// Returns the changes of items by their ids, of which key 1 has 1 and 4.
pub(super) fn changes_of_items<M: Model + AsRef<Trades>>(case: &'static str) -> Vec<Call<M>> {
    calls! { M;
        Atomic, "BucketRepository::replace_item", case, |m|
            m.as_ref().replace_item(&1, &Trade { n: 4, date: at(SECOND + 50) }).await;
        Atomic, "BucketRepository::update_item", case, |m|
            m.as_ref().update_item(&1, 4_i64, doc! { "$set": { "date": at(SECOND + 50) } }).await;
        Atomic, "BucketRepository::remove_item", case, |m| m.as_ref().remove_item(&1, 1_i64).await;
    }
}

pub(super) async fn found(trades: &Trades) -> Vec<String> {
    use mongo_patterns::bucket::Problem::{Count, Empty, NotFull, SeveralOpen, TooManyItems};
    // The settings can be those of a repository with another page size.
    let collection = trades.collection();
    let database = collection.client().database(&collection.namespace().db);
    let catalog = database.collection::<Document>("mongo_patterns");
    let entry = catalog
        .find_one_and_delete(doc! { "_id.kind": "bucket" })
        .await
        .unwrap();
    let mut findings = trades.verify().stream();
    let mut found = Vec::new();
    while let Some(finding) = findings.try_next().await.unwrap() {
        let id = finding.document_id.as_str().unwrap_or_default();
        match finding.problem {
            Count { .. } => found.push(format!("{id} counts")),
            Empty | TooManyItems { .. } => found.push(format!("{id} size")),
            SeveralOpen { open } => found.push(format!("{open} open")),
            NotFull { .. } => {}
            other => found.push(format!("{id} {other:?}")),
        }
    }
    if let Some(entry) = entry {
        catalog.insert_one(entry).await.unwrap();
    }
    found
}

impl Model for Histories {
    const PATTERN: &'static str = "bucket";
    const COLLECTIONS: &'static [&'static str] = &["trades"];

    fn new(of: Of<'_>) -> Self {
        let collection = of.collection("trades");
        let ids = builder(collection.clone()).item_id_field("n");
        Self {
            with_ids: ids.build().unwrap(),
            plain: builder(collection.clone()).build().unwrap(),
            stored: collection,
        }
    }

    async fn fill(&self) {
        self.with_ids.ensure_indexes().await.unwrap();
        let buckets = [bucket(1, 0..3), bucket(1, 3..6), bucket(1, 6..7), bucket(2, 100..103)];
        self.stored.insert_many(buckets).await.unwrap();
    }

    async fn facts(&self) -> Vec<String> {
        let mut facts = inspect(&all(&self.stored).await, PAGE).0;
        facts.extend(indexes(&self.stored).await);
        facts
    }

    async fn read(&self) -> Option<Vec<String>> {
        read(&self.plain).await
    }

    async fn damage(&self) -> Vec<String> {
        inspect(&all(&self.stored).await, PAGE).1
    }

    async fn found(&self) -> Vec<String> {
        found(&self.with_ids).await
    }

    async fn repair(&self) {
        repair(&self.with_ids).await;
    }
}

const APPEND: &str = "BucketRepository::append";
const MANY: &str = "BucketRepository::append_many";

/// Sets an incorrect count, and adds an item to a full page.
fn damaged(m: &Histories) -> futures::future::LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        miscounted(m).await;
        m.stored.insert_one(bucket(3, 200..205)).await.unwrap();
    })
}

/// Damages one key: several are repaired concurrently, and their commands have no order.
fn miscounted(m: &Histories) -> futures::future::LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let count = doc! { "$set": { "count": 7 } };
        let first = doc! { "_id": format!("1_{SECOND}") };
        m.stored.update_one(first, count).await.unwrap();
    })
}

pub(super) fn operations() -> Vec<Call<Histories>> {
    calls! { Histories;
        Atomic, APPEND, "into the open page", |m| m.with_ids.append(&1, &spread(7)).await;
        Atomic, APPEND, "into a new page", |m| m.with_ids.append(&2, &spread(107)).await;
        Atomic, APPEND, "with a time, into a new page", |m|
            m.with_ids.append(&2, &spread(107)).at(at(SECOND + 200)).await;
        Steps, APPEND, "of six calls, of which five are sent together", |m| {
            let items: Vec<Trade> = (7..13).map(spread).collect();
            let appends = items.iter().map(|item| m.with_ids.append(&1, item).into_future());
            try_join_all(appends).await
        };
        Atomic, APPEND, "of a stored item", |m| m.with_ids.append(&1, &spread(4)).await;
        PrefixOnce, APPEND, "without an item id", |m| m.plain.append(&1, &spread(7)).await;
        Prefix, MANY, "onto three pages", |m| m.with_ids.append_many(&1, &trades_of(7..15)).await;
        Prefix, MANY, "some of which are stored", |m|
            m.with_ids.append_many(&1, &trades_of(5..12)).await => stored_before(2);
        PrefixOnce, MANY, "without item ids, of a new key", |m| m.plain.append_many(&3, &trades_of(7..15)).await;
        Steps, "BucketRepository::append_stream", "of two keys", |m|
            m.with_ids.append_stream(iter((7..12).flat_map(|n| [(1, spread(n)), (3, spread(n))]))).await;
        Atomic, "BucketRepository::replace_item", "", |m|
            m.with_ids.replace_item(&1, &Trade { n: 4, date: at(SECOND + 50) }).await;
        Atomic, "BucketRepository::update_item", "", |m|
            m.with_ids.update_item(&1, 4_i64, doc! { "$set": { "date": at(SECOND + 50) } }).await;
        Atomic, "BucketRepository::remove_item", "the only item of the open page", |m|
            m.with_ids.remove_item(&1, 6_i64).await;
        Atomic, "BucketRepository::remove_item", "from a full page", |m| m.with_ids.remove_item(&1, 1_i64).await;
        Steps, "BucketRepository::ensure_indexes", "", |m|
            m.with_ids.ensure_indexes().await
            => prepare(|m| m.stored.drop_indexes().await.unwrap());
        Steps, "BucketRepository::delete_key", "", |m| m.plain.delete_key(&1).await.map(drop);
        Steps, "BucketRepository::repair", "", |m|
            serialized(m.with_ids.repair().stream()).await => prepare(miscounted);
        Steps, "BucketRepository::repair_key", "", |m|
            serialized(m.with_ids.repair_key(&1).stream()).await => prepare(miscounted);
        Reads, "BucketRepository::repair", "dry run", |m|
            serialized(m.with_ids.repair().dry_run().stream()).await => prepare(miscounted);
        Reads, "BucketRepository::verify", "", |m|
            serialized(m.with_ids.verify().stream()).await => prepare(damaged);
        Reads, "BucketRepository::verify_key", "", |m|
            serialized(m.with_ids.verify_key(&1).stream()).await => prepare(damaged);
        Reads, "BucketRepository::page", "", |m| m.plain.page(&1, 2).await;
        Reads, "BucketRepository::buckets", "", |m| m.plain.buckets(&1).newest_first().limit(2).page().await;
        Reads, "BucketRepository::newest", "", |m| m.plain.newest(&1, 5).await;
        Reads, "BucketRepository::items + Items::stream", "", |m|
            m.plain.items(&1).stream().try_collect::<Vec<_>>().await;
        Reads, "BucketRepository::items + Items::page", "from a time", |m|
            m.plain.items(&1).from(at(SECOND + 2)).limit(3).page().await;
        Reads, "BucketRepository::keys", "", |m| m.plain.keys().await;
        Reads, "BucketRepository::keys + Keys::stream", "", |m| m.plain.keys().stream().try_collect::<Vec<_>>().await;
        Reads, "BucketRepository::find_items + FindItems::stream", "", |m| {
            let order = doc! { "customerId": 1, "n": 1 };
            let found = m.plain.find_items(doc! { "n": { "$gt": 2 } }).sort(order);
            found.stream().try_collect::<Vec<_>>().await
        };
        Reads, "BucketRepository::find_items", "", |m|
            m.plain.find_items(doc! { "n": { "$gt": 2 } }).sort(doc! { "customerId": 1, "n": 1 }).await;
        Reads, "BucketRepository::find_items + FindItems::explain", "", |m|
            m.plain.find_items(doc! { "n": 3 }).explain().await;
        Reads, "BucketRepository::item", "", |m| m.with_ids.item(&1, 4_i64).await;
        Reads, "BucketRepository::counts", "", |m| m.plain.counts(&1).await;
        Reads, "BucketRepository::count_pages", "", |m| m.plain.count_pages(&1).await;
    }
}
