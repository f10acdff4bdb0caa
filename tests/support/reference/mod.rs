//! Orders with their customer.

pub mod follow;
pub mod migrate;
pub mod migrate_refused;
pub mod source_key;

pub use mongo_patterns::Repository;
use std::collections::BTreeMap;

use futures::TryStreamExt;
use mongo_patterns::IntoId;
use mongo_patterns::reference::{
    Finding, OnReferences, Problem, ReferenceRepository, ReferenceRepositoryBuilder, Repaired,
};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Collection, Database};

use crate::common::{all, integer, on_shards};

pub type Orders = ReferenceRepository<Document, Document>;
pub type Builder = ReferenceRepositoryBuilder<Document, Document>;

/// The collections of the tests.
pub const COLLECTIONS: [&str; 3] = ["orders", "customers", "invoices"];

/// Returns a builder that still needs references.
pub fn bare(database: &Database) -> Builder {
    Orders::builder(
        database.collection::<Document>("orders"),
        database.collection::<Document>("customers"),
    )
}

pub fn builder(database: &Database) -> Builder {
    bare(database)
        .reference_field("customer")
        .copied_fields(["name", "address"])
}

/// Returns a repository over empty collections with its indexes, and a clear recorder.
pub async fn orders(db: &TestDatabase) -> Orders {
    ready(db, builder(db.database())).await
}

pub async fn ready(db: &TestDatabase, builder: Builder) -> Orders {
    let orders = builder.build().unwrap();
    on_shards(db, orders.ensure_sharded()).await;
    orders.ensure_indexes().replace_settings().await.unwrap();
    for name in COLLECTIONS {
        let collection = db.plain_collection::<Document>(name);
        collection.delete_many(doc! {}).await.unwrap();
    }
    db.recorder().clear();
    orders
}

/// Returns repositories that share nothing in memory, as those of processes. They retry for as long as it takes.
pub async fn processes(db: &TestDatabase, number: usize) -> Vec<Orders> {
    let mut processes = Vec::new();
    for _ in 0..number {
        processes.push(ready(db, patient(builder(db.database()))).await);
    }
    processes
}

pub fn patient(builder: Builder) -> Builder {
    builder.retry(crate::common::patient())
}

/// Returns a repository over customers 1 and 2, and a clear recorder. Its indexes are checked already.
pub async fn with_customers(db: &TestDatabase) -> Orders {
    let orders = orders(db).await;
    add_customers(db, 1..=2).await;
    check_indexes(db, &orders).await;
    orders
}

/// Makes the check of the indexes, which the first update or deletion of a source makes.
pub async fn check_indexes(db: &TestDatabase, orders: &Orders) {
    orders.update_source(-1, rename("Ann")).await.unwrap_err();
    db.recorder().clear();
}

/// Stores customers without a version, as a program does that does not know the pattern.
pub async fn add_customers(db: &TestDatabase, ids: std::ops::RangeInclusive<i32>) {
    let customers: Vec<Document> = ids.map(|id| customer(id, "Ann")).collect();
    crate::reference::customers(db).insert_many(customers).await.unwrap();
}

pub fn customer(id: impl Into<Bson>, name: &str) -> Document {
    doc! { "_id": id, "name": name, "address": { "city": "Dublin" }, "visits": 0 }
}

/// Returns an order of a customer.
pub fn order(id: impl Into<Bson>, customer: impl Into<Bson>) -> Document {
    doc! { "_id": id, "customer": { "_id": customer }, "total": 5 }
}

/// Returns the update that renames a customer.
pub fn rename(name: &str) -> Document {
    doc! { "$set": { "name": name } }
}

/// Deletes a source by a rule. Returns whether it was found, and the number of changed copies.
pub async fn delete(orders: &Orders, source: impl IntoId, rule: OnReferences) -> (bool, u64) {
    let deleted = orders.delete_source(source).on_references(rule).await.unwrap();
    (deleted.found, deleted.copies)
}

/// Returns a repository of a process whose commands are not recorded.
pub fn unrecorded(db: &TestDatabase) -> Orders {
    let database = db.plain_client().database(db.database().name());
    builder(&database).build().unwrap()
}

/// Returns the orders, by a client that is not recorded.
pub fn stored(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("orders")
}

/// Returns the customers, by a client that is not recorded.
pub fn customers(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("customers")
}

/// Returns all documents of the collections.
pub async fn contents(db: &TestDatabase) -> Vec<Vec<Document>> {
    let mut contents = Vec::new();
    for name in COLLECTIONS {
        contents.push(all(&db.plain_collection(name)).await);
    }
    contents
}

/// Returns the customer in a stored order.
pub async fn copy_in(db: &TestDatabase, order: impl Into<Bson>) -> Document {
    let order: Bson = order.into();
    let found = stored(db).find_one(doc! { "_id": { "$eq": order } }).await.unwrap();
    found.unwrap().get_document("customer").unwrap().clone()
}

/// Returns the names of the commands since the last call.
pub fn names(db: &TestDatabase) -> String {
    let names = db.recorder().names().join(" ");
    db.recorder().clear();
    names
}

/// Returns a stored number, or 0.
pub fn number(document: &Document, field: &str) -> i64 {
    document.get(field).map_or(0, integer)
}

/// The references of all orders, compared with their customers without the repository.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// How many copies there are.
    pub copies: usize,
    /// How many copies have another name, address or version than their customer.
    pub stale: usize,
    /// How many references have no customer.
    pub dangling: usize,
}

pub async fn judge(db: &TestDatabase) -> Judged {
    let now = all(&customers(db)).await;
    let now: BTreeMap<String, &Document> = now
        .iter()
        .map(|customer| (customer.get("_id").unwrap().to_string(), customer))
        .collect();
    let mut judged = Judged::default();
    for order in all(&stored(db)).await {
        let Some(Bson::Document(copy)) = order.get("customer") else {
            continue;
        };
        judged.copies += 1;
        match now.get(&copy.get("_id").unwrap().to_string()) {
            None => judged.dangling += 1,
            Some(customer) => {
                let is_equal = ["name", "address"]
                    .iter()
                    .all(|field| copy.get(field) == customer.get(field));
                judged.stale += usize::from(!is_equal || number(copy, "v") != number(customer, "v"));
            }
        }
    }
    judged
}

/// Asserts that all copies equal their customers, without the repository and by it. Returns how many there are.
pub async fn assert_current(db: &TestDatabase, orders: &Orders) -> usize {
    let judged = judge(db).await;
    assert_eq!((judged.stale, judged.dangling), (0, 0), "{judged:?}");
    assert_eq!(findings(orders).await, []);
    judged.copies
}

pub async fn findings(orders: &Orders) -> Vec<Finding> {
    orders.verify().stream().try_collect().await.unwrap()
}

pub async fn problems(orders: &Orders) -> Vec<Problem> {
    findings(orders).await.iter().map(|finding| finding.problem).collect()
}

pub async fn repaired(orders: &Orders) -> Vec<Repaired> {
    orders.repair().stream().try_collect().await.unwrap()
}
