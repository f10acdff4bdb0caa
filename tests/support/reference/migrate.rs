//! Orders in the form of a program without the repository.

use futures::TryStreamExt;
use mongo_patterns::reference::{Migrated, Reference};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};

use crate::reference::*;

/// The collections that a migration reads and writes.
const ALL: [&str; 6] = [
    "orders",
    "customers",
    "invoices",
    "expected",
    "skipped",
    "mongo_patterns",
];

/// Adds products in an array, and a payer whose copy does not follow.
pub fn several(builder: Builder) -> Builder {
    let payer = Reference::new("payer").copied_fields(["name"]).snapshot();
    let products = Reference::new("products").copied_fields(["name"]).array();
    builder.add_reference(payer).add_reference(products)
}

/// Drops all collections, as no repository has been here yet, and stores orders.
pub async fn unmigrated(db: &TestDatabase, orders: impl IntoIterator<Item = Document>) {
    for name in ALL {
        db.plain_collection::<Document>(name).drop().await.unwrap();
    }
    let orders: Vec<Document> = orders.into_iter().collect();
    if !orders.is_empty() {
        stored(db).insert_many(orders).await.unwrap();
    }
}

/// Returns the documents of a collection byte by byte, in the order of their ids.
pub async fn raw(db: &TestDatabase, name: &str) -> Vec<RawDocumentBuf> {
    let collection = db.plain_collection::<RawDocumentBuf>(name);
    let found = collection.find(doc! {}).sort(doc! { "_id": 1 });
    found.await.unwrap().try_collect().await.unwrap()
}

/// Returns the bytes of documents.
pub fn encoded(documents: &[Document]) -> Vec<RawDocumentBuf> {
    let encoded = documents.iter().map(|one| RawDocumentBuf::try_from(one).unwrap());
    encoded.collect()
}

/// Asserts that two lists of documents have the same bytes.
pub fn assert_same(found: &[RawDocumentBuf], expected: &[RawDocumentBuf]) {
    for (found, expected) in found.iter().zip(expected) {
        assert!(found == expected, "{found:?}\nis not\n{expected:?}");
    }
    assert_eq!(found.len(), expected.len());
}

pub fn skip_list(db: &TestDatabase) -> Collection<Document> {
    db.collection("skipped")
}

/// Returns the number of migrated orders.
pub fn number_of(migrated: &Migrated) -> u64 {
    assert_eq!(migrated.skipped.total(), 0);
    migrated.documents
}

/// Returns the names of the commands since the last call, without those that the length of a cursor decides.
pub fn names_without_more(db: &TestDatabase) -> Vec<String> {
    let names = db.recorder().names();
    db.recorder().clear();
    names.into_iter().filter(|name| name != "getMore").collect()
}

/// Updates a source as a repository does whose sweep has found no order, because none has a copy yet.
pub async fn rename_unnoticed(db: &TestDatabase, customer: i32, name: &str) {
    let update = doc! { "$set": { "name": name }, "$inc": { "v": 1_i64 } };
    let filter = doc! { "_id": customer };
    customers(db).update_one(filter, update).await.unwrap();
}
