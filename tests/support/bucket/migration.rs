//! A flat collection of trades, and the buckets for them.

use mongo_patterns::Key;
use mongo_patterns::bucket::{BucketRepository, BucketRepositoryBuilder};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::common::*;

pub type Histories<K> = BucketRepository<K, Document>;

pub fn histories<K: Key>(db: &TestDatabase) -> BucketRepositoryBuilder<K, Document> {
    Histories::<K>::builder(db.collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .time_field("date")
}

/// The flat collection, of the client that is not recorded.
pub fn flat(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("flat")
}

/// Replaces the flat collection, and drops the buckets.
pub async fn fill(db: &TestDatabase, documents: &[Document]) {
    plain(db).drop().await.unwrap();
    flat(db).drop().await.unwrap();
    flat(db).insert_many(documents).await.unwrap();
    let index = mongodb::IndexModel::builder()
        .keys(doc! { "customerId": 1, "date": -1 })
        .build();
    flat(db).create_index(index).await.unwrap();
}

/// Flat documents of some keys, whose times are neither in the order of the inserts, nor all different.
pub fn documents(keys: &[Bson], items: i32) -> Vec<Document> {
    let mut made = Vec::new();
    for n in 0..items {
        for (position, key) in (0..).zip(keys) {
            let millis = (SECOND + i64::from(n * 7 % 5) + i64::from(position)) * 1000 + i64::from(n * 13 % 1000);
            let id = n * 1000 + position;
            made.push(
                doc! { "_id": id, "customerId": key, "n": n, "date": DateTime::from_millis(millis), "note": "$n" },
            );
        }
    }
    made
}

/// Documents that cannot be migrated, with their reasons.
pub fn invalid() -> Vec<(Document, &'static str)> {
    let date = at(SECOND);
    vec![
        (doc! { "_id": 100000, "date": date }, "key"),
        (doc! { "_id": 100001, "customerId": null, "date": date }, "key"),
        (doc! { "_id": 100002, "customerId": "2", "date": date }, "key"),
        (doc! { "_id": 100003, "customerId": [2, 3], "date": date }, "key"),
        (doc! { "_id": 100004, "customerId": f64::NAN, "date": date }, "key"),
        (doc! { "_id": 100005, "customerId": -1, "date": "no date" }, "key"),
        (doc! { "_id": 100006, "customerId": 2 }, "time"),
        (doc! { "_id": 100007, "customerId": 3, "date": "2023-10-26" }, "time"),
    ]
}
