//! Addresses in a collection of their own.

use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Collection, IndexModel};

pub fn addresses(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("address")
}

pub async fn index_reference(db: &TestDatabase) {
    let index = IndexModel::builder().keys(doc! { "patron_id": 1 }).build();
    addresses(db).create_index(index).await.unwrap();
}

pub fn referring(id: i32, patron: impl Into<Bson>) -> Document {
    doc! { "_id": id, "patron_id": patron, "street": format!("{id} Fake Street"), "n": -id }
}
