//! An archive of the manual's sales.

use std::time::Duration;

use mongo_patterns::archive::{Archive, ArchiveBuilder};
use mongo_patterns::{Repository, RetryPolicy};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::common::all;

/// Five years.
pub const AGE: Duration = Duration::from_secs(5 * 365 * 24 * 60 * 60);

pub fn builder(db: &TestDatabase) -> ArchiveBuilder<Document> {
    Archive::builder(
        db.collection::<Document>("sales"),
        db.collection::<Document>("archived_sales"),
    )
    .age_field("date")
    .older_than(AGE)
    .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(20)))
}

/// Returns an archive that keeps permanent documents.
pub fn unchecked(db: &TestDatabase) -> Archive<Document> {
    let keep = doc! { "retentionPolicy": "permanent" };
    builder(db).keep(keep).build().unwrap()
}

/// Returns it with its indexes.
pub async fn archive(db: &TestDatabase) -> Archive<Document> {
    let archive = unchecked(db);
    archive.ensure_indexes().await.unwrap();
    db.recorder().clear();
    archive
}

/// A time some minutes after the year 2018 began: old enough.
pub fn old(minute: i64) -> DateTime {
    DateTime::from_millis(1_514_764_800_000 + minute * 60_000)
}

/// A time some minutes ago.
pub fn new(minutes: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() - minutes * 60_000)
}

pub fn sale(id: impl Into<Bson>, date: DateTime) -> Document {
    doc! {
        "_id": id.into(), "customer_name": "Claire", "date": date,
        "products": [{ "product_id": 12, "quantity": 1 }], "total_amount": 129.0,
    }
}

/// Stores documents without the archive.
pub async fn plant(db: &TestDatabase, documents: impl IntoIterator<Item = Document>) {
    for collection in [current(db), archived(db)] {
        collection.delete_many(doc! {}).await.unwrap();
    }
    current(db).insert_many(documents).await.unwrap();
    db.recorder().clear();
}

pub fn current(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("sales")
}

pub fn archived(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("archived_sales")
}

/// Returns the `_id`s of both collections.
pub async fn both(db: &TestDatabase) -> [Vec<Bson>; 2] {
    let ids = async |collection| {
        let found: Vec<Document> = all(&collection).await;
        found.iter().map(|found| found.get("_id").unwrap().clone()).collect()
    };
    [ids(current(db)).await, ids(archived(db)).await]
}

/// Returns whole numbers as `_id`s.
pub fn numbers(ids: impl IntoIterator<Item = i32>) -> Vec<Bson> {
    ids.into_iter().map(Bson::from).collect()
}
