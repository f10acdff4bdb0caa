//! Damaged buckets, for the tests of `verify` and `repair`: pages of three, of string keys.

use std::ops::Range;

use futures::TryStreamExt;
use mongo_patterns::bucket::{BucketRepository, BucketRepositoryBuilder, Finding, Problem};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use crate::common::support::*;

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

/// A kind of damage: the documents, the findings, and the numbers of the trades in the pages after a repair.
/// `None` when it is not repaired.
pub struct Damage {
    pub documents: Vec<Document>,
    pub problems: Vec<(&'static str, Problem)>,
    pub pages: Option<Vec<(&'static str, Vec<i64>)>>,
}

/// Every kind, on customer a.
pub fn kinds() -> Vec<Damage> {
    use Problem::*;
    let kind = |documents: Vec<Document>, problems: Vec<(&'static str, Problem)>, pages| Damage {
        documents,
        problems,
        pages,
    };
    let pages = |pages: &[(&'static str, Range<i64>)]| {
        Some(
            pages
                .iter()
                .map(|(id, trades)| (*id, trades.clone().collect()))
                .collect(),
        )
    };
    vec![
        kind(
            vec![with(bucket("a", 0..3), "count", 2), bucket("a", 3..5)],
            vec![(
                "a_1698335223",
                Count {
                    count: Some(2),
                    items: 3,
                },
            )],
            pages(&[("a_1698335223", 0..3), ("a_1698335226", 3..5)]),
        ),
        kind(
            vec![bucket("a", 0..3), without(bucket("a", 3..5), "count")],
            vec![("a_1698335226", Count { count: None, items: 2 })],
            pages(&[("a_1698335223", 0..3), ("a_1698335226", 3..5)]),
        ),
        kind(
            vec![bucket("a", 0..8), bucket("a", 8..10)],
            vec![("a_1698335223", TooManyItems { items: 8 })],
            pages(&[
                ("a_1698335223", 0..3),
                ("a_1698335226", 3..6),
                ("a_1698335229", 6..9),
                ("a_1698335231", 9..10),
            ]),
        ),
        kind(
            vec![
                bucket("a", 0..2),
                bucket("a", 2..3),
                bucket("a", 3..6),
                bucket("a", 6..8),
            ],
            vec![
                ("a_1698335223", NotFull { items: 2 }),
                ("a_1698335225", NotFull { items: 1 }),
                ("a_1698335229", SeveralOpen { open: 3 }),
            ],
            pages(&[("a_1698335223", 0..3), ("a_1698335226", 3..6), ("a_1698335229", 6..8)]),
        ),
        kind(
            vec![bucket_at("a", 852_076_800, 0..3), bucket("a", 3..6)],
            vec![("a_852076800", IdOrder)],
            pages(&[("a_0852076800", 0..3), ("a_1698335226", 3..6)]),
        ),
        kind(
            vec![
                bucket_at("a", -86_400, 0..3),
                bucket_at("a", -5, 3..6),
                bucket_at("a", 7, 6..8),
            ],
            vec![("a_-86400", IdOrder), ("a_-5", IdOrder), ("a_7", IdOrder)],
            pages(&[
                ("a_0000000000", 0..3),
                ("a_0000000000_000001", 3..6),
                ("a_0000000007", 6..8),
            ]),
        ),
        kind(
            vec![bucket_at("a", 1_698_335_223_000, 0..3), bucket("a", 3..4)],
            vec![("a_1698335223000", IdOrder)],
            pages(&[("a_1698335223", 0..3), ("a_1698335226", 3..4)]),
        ),
        kind(
            vec![with(bucket("a", 0..3), "_id", "bucket of a"), bucket("a", 3..4)],
            vec![("bucket of a", IdFormat)],
            pages(&[("a_1698335223", 0..3), ("a_1698335226", 3..4)]),
        ),
        kind(
            vec![with(bucket("a", 0..3), "_id", 7), bucket("a", 3..4)],
            vec![("no text", IdFormat)],
            pages(&[("a_1698335223", 0..3), ("a_1698335226", 3..4)]),
        ),
        kind(
            vec![without(bucket("a", 0..3), "customerId"), bucket("a", 3..4)],
            vec![("a_1698335223", KeyMissing)],
            pages(&[("a_1698335223", 0..3), ("a_1698335226", 3..4)]),
        ),
        kind(
            vec![with(bucket("a", 0..3), "customerId", Bson::Null)],
            vec![("a_1698335223", KeyMissing)],
            pages(&[("a_1698335223", 0..3)]),
        ),
        kind(
            vec![bucket_at("a", 7, 0..0), bucket("a", 0..2)],
            vec![("a_7", IdOrder), ("a_7", Empty)],
            pages(&[("a_1698335223", 0..2)]),
        ),
        kind(
            vec![with(bucket("a", 0..3), "customerId", "b")],
            vec![("a_1698335223", KeyMismatch)],
            None,
        ),
        kind(
            vec![with(bucket("a", 0..3), "customerId", 5)],
            vec![("a_1698335223", KeyType)],
            None,
        ),
        kind(
            vec![with(without(bucket("a", 0..3), "customerId"), "_id", "what")],
            vec![("what", IdFormat), ("what", KeyMissing)],
            None,
        ),
        kind(
            vec![with(bucket("a", 0..3), "history", "what"), bucket("a", 3..7)],
            vec![
                ("a_1698335223", ItemsNotArray),
                ("a_1698335226", TooManyItems { items: 4 }),
            ],
            None,
        ),
        kind(
            vec![bucket("a", 0..2), with(bucket("a", 0..0), "_id", "a_9999999999999")],
            vec![("a_9999999999999", IdOrder), ("a_9999999999999", Empty)],
            pages(&[("a_1698335223", 0..2)]),
        ),
        kind(
            vec![with(with(bucket("a", 0..1), "_id", "a_9999999999999"), "history", [1])],
            vec![
                ("a_9999999999999", IdOrder),
                ("a_9999999999999", ItemTimeMissing { items: 1 }),
            ],
            None,
        ),
    ]
}
