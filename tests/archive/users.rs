//! Users with a unique address, and their trash.

use std::time::Duration;

use mongo_patterns::archive::{Trash, TrashBuilder};
use mongo_patterns::{Repository, RetryPolicy};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::IndexOptions;
use mongodb::{Collection, IndexModel};

use crate::common::support::all;

/// Thirty days.
pub const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub fn builder(db: &TestDatabase) -> TrashBuilder<Document> {
    Trash::builder(
        db.collection::<Document>("users"),
        db.collection::<Document>("deleted_users"),
    )
    .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(20)))
}

/// Returns a trash with its indexes, of users with unique addresses.
pub async fn trash(db: &TestDatabase) -> Trash<Document> {
    let trash = builder(db).build().unwrap();
    trash.ensure_indexes().await.unwrap();
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
    users(db).create_index(index).await.unwrap();
    db.recorder().clear();
    trash
}

/// Returns a user with an address of its own.
pub fn user(id: impl Into<Bson>) -> Document {
    let id = id.into();
    let email = format!("{id}@example.com");
    doc! { "_id": id, "name": "Claire", "email": email }
}

/// Returns an entry of a user who was deleted some minutes after the year 2018 began.
pub fn entry(id: impl Into<Bson>, minute: i64) -> Document {
    doc! { "_id": ObjectId::new(), "document": user(id), "deletedAt": super::sales::old(minute) }
}

/// Stores users, as other programs do.
pub async fn plant(db: &TestDatabase, documents: impl IntoIterator<Item = Document>) {
    users(db).insert_many(documents).await.unwrap();
    db.recorder().clear();
}

pub fn users(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("users")
}

pub fn entries(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("deleted_users")
}

/// Returns the `_id`s of the users, and those in the trash, in the order of the deletions.
pub async fn both(db: &TestDatabase) -> [Vec<Bson>; 2] {
    let ids = |found: &[Document]| -> Vec<Bson> { found.iter().map(|one| one.get("_id").unwrap().clone()).collect() };
    let mut entries = all(&entries(db)).await;
    entries.sort_by_key(deleted_at);
    let deleted: Vec<Document> = entries
        .iter()
        .map(|entry| entry.get_document("document").unwrap().clone())
        .collect();
    [ids(&all(&users(db)).await), ids(&deleted)]
}

pub fn deleted_at(entry: &Document) -> DateTime {
    *entry.get_datetime("deletedAt").unwrap()
}
