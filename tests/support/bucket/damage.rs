//! Damaged buckets: pages of three, of string keys.

use std::ops::Range;

use futures::TryStreamExt;
use mongo_patterns::bucket::{BucketRepository, BucketRepositoryBuilder, Finding, Problem};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use crate::common::*;

pub type Named = BucketRepository<String, Trade>;

/// Pages of three items, with string keys, without an index.
pub fn named(db: &TestDatabase) -> BucketRepositoryBuilder<String, Trade> {
    named_in(db.collection("trades"))
}

pub fn named_in(collection: Collection<Document>) -> BucketRepositoryBuilder<String, Trade> {
    Named::builder(collection)
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
        .page_size(3)
}

/// A bucket with the trades of these numbers. Its second is that of the first trade.
pub fn bucket(key: &str, trades: Range<i64>) -> Document {
    bucket_at(key, SECOND + trades.start, trades)
}

pub fn bucket_at(key: &str, second: i64, trades: Range<i64>) -> Document {
    let count = i32::try_from(trades.end - trades.start).unwrap();
    let history: Vec<Bson> = trades.map(trade).collect();
    doc! { "_id": format!("{key}_{second}"), "customerId": key, "count": count, "history": history }
}

pub fn trade(n: i64) -> Bson {
    doc! { "n": n, "date": at(SECOND + n) }.into()
}

pub fn with(mut document: Document, field: &str, value: impl Into<Bson>) -> Document {
    document.insert(field, value);
    document
}

pub fn without(mut document: Document, field: &str) -> Document {
    document.remove(field);
    document
}

pub async fn plant(db: &TestDatabase, documents: impl IntoIterator<Item = Document>) {
    plain(db).drop().await.unwrap();
    plain(db).insert_many(documents).await.unwrap();
}

pub async fn findings(named: &Named) -> Vec<Finding> {
    named.verify().stream().try_collect().await.unwrap()
}

pub fn problems(findings: &[Finding]) -> Vec<(&str, Problem)> {
    let id = |finding: &Finding| finding.document_id.as_str().unwrap_or("no text").to_owned();
    findings
        .iter()
        .map(|finding| (&*id(finding).leak(), finding.problem))
        .collect()
}
