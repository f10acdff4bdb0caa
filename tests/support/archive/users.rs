//! Users with a unique address, and their trash.

use std::time::Duration;

use mongo_patterns::archive::{Trash, TrashBuilder};
use mongo_patterns::{Repository, RetryPolicy};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::IndexOptions;
use mongodb::{Collection, IndexModel};

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
    doc! { "_id": ObjectId::new(), "document": user(id), "deletedAt": crate::archive::sales::old(minute) }
}

pub fn users(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("users")
}

pub fn entries(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("deleted_users")
}
