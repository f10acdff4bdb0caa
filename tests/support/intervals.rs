//! The manual's prices, with intervals.

use futures::TryStreamExt;
use mongo_patterns::Repository;
use mongo_patterns::intervals::IntervalRepository;
use mongo_patterns::intervals::{Finding, Interval, IntervalRepositoryBuilder, Problem};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::{Collection, Database};

use crate::common::on_shards;

pub type Prices = IntervalRepository<Document>;

/// The manual's end of time: 9999-01-01.
pub const END: DateTime = DateTime::from_millis(253_370_764_800_000);
/// The manual's start of what was never changed: 1900-01-01.
pub const BEGIN: DateTime = DateTime::from_millis(-2_208_988_800_000);

pub fn builder(database: &Database) -> IntervalRepositoryBuilder<Document> {
    Prices::builder(database.collection::<Document>("prices")).id_field("item")
}

/// Returns a repository with its indexes, and a clear recorder.
pub async fn prices(db: &TestDatabase) -> Prices {
    let prices = builder(db.database()).build().unwrap();
    on_shards(db, prices.ensure_sharded()).await;
    prices.ensure_indexes().await.unwrap();
    db.recorder().clear();
    prices
}

/// Returns the stored documents, by a client that is not recorded.
pub fn stored(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("prices")
}

pub fn price(item: impl Into<Bson>, price: i32) -> Document {
    doc! { "item": item, "price": price }
}

/// Returns the update that sets a price.
pub fn to(price: i32) -> Document {
    doc! { "$set": { "price": price } }
}

pub fn at(millis: i64) -> DateTime {
    DateTime::from_millis(millis)
}

/// Changes the start of the interval that a filter matches.
pub async fn begin_at(db: &TestDatabase, filter: Document, start: DateTime) {
    let set = doc! { "$set": { "validFrom": start } };
    let set = stored(db).update_one(filter, set).await.unwrap();
    assert_eq!(set.modified_count, 1);
}

/// Stores the documents of a file, of small inputs that public reports led to.
pub async fn store_file(db: &TestDatabase, text: &str) {
    let documents: Vec<Document> = serde_json::from_str(text).unwrap();
    stored(db).insert_many(documents).await.unwrap();
}

/// Returns the price of an interval.
pub fn price_of(interval: &Interval<Document>) -> i32 {
    interval.document.get_i32("price").unwrap()
}

/// Returns the prices of an item in the order of their starts, read without the repository.
pub async fn of_item(db: &TestDatabase, item: impl Into<Bson>) -> Vec<Document> {
    let item: Bson = item.into();
    let prices = stored(db);
    let of_item = prices
        .find(doc! { "item": { "$eq": item } })
        .sort(doc! { "validFrom": 1 });
    of_item.await.unwrap().try_collect().await.unwrap()
}

/// Returns the prices with their intervals.
pub fn intervals(documents: &[Document]) -> Vec<(i32, DateTime, DateTime, bool)> {
    let of = |one: &Document| {
        let time = |field: &str| *one.get_datetime(field).unwrap();
        let price = one.get_i32("price").unwrap();
        (
            price,
            time("validFrom"),
            time("validTo"),
            one.get_bool("isValid").unwrap(),
        )
    };
    documents.iter().map(of).collect()
}

/// Checks by the manual's query that one document answers at each boundary, and that one is valid. Returns the prices.
pub async fn judge(db: &TestDatabase, item: &str) -> Vec<i32> {
    let documents = of_item(db, item).await;
    let all = intervals(&documents);
    for (_, from, to, is_valid) in &all {
        let at_start = doc! { "item": item, "validFrom": { "$lte": from }, "validTo": { "$gt": from } };
        assert_eq!(stored(db).count_documents(at_start).await.unwrap(), 1, "at {from}");
        assert_eq!(*is_valid, *to == END);
    }
    for two in all.windows(2) {
        assert_eq!(two[0].2, two[1].1, "a gap or an overlap");
    }
    assert_eq!(all.iter().filter(|one| one.3).count(), 1);
    all.iter().map(|one| one.0).collect()
}

pub async fn findings(prices: &Prices) -> Vec<Finding> {
    prices.verify().stream().try_collect().await.unwrap()
}

/// Returns the problems of all documents, sorted.
pub async fn problems(prices: &Prices) -> Vec<Problem> {
    let mut found: Vec<Problem> = findings(prices).await.iter().map(|finding| finding.problem).collect();
    found.sort_by_key(Problem::name);
    found
}

/// Stores what the manual's recipe, as it is printed, leaves after changes by one writer to the prices 1, 2 and so on: each
/// closes the first document again, and inserts a valid one.
pub async fn by_the_recipe(prices: &Collection<Document>, item: &str, changes: i32) {
    prices.insert_one(price(item, 0)).await.unwrap();
    for change in 1..=changes {
        let now = at(i64::from(change) * 1000);
        let closed = doc! { "item": item, "$or": [{ "isValid": false }, { "isValid": null }] };
        let set = doc! { "$set": { "validFrom": BEGIN, "validTo": now, "isValid": false } };
        prices.update_one(closed, set).await.unwrap();
        let new = doc! { "item": item, "price": change, "validFrom": now, "validTo": END, "isValid": true };
        prices.insert_one(new).await.unwrap();
    }
}
