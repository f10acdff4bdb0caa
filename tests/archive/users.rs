//! Users with a unique address, and their trash.

use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, DateTime, Document};

use support::archive::users::*;
use support::common::all;

/// Stores users, as other programs do.
pub async fn plant(db: &TestDatabase, documents: impl IntoIterator<Item = Document>) {
    users(db).insert_many(documents).await.unwrap();
    db.recorder().clear();
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
