//! Patrons with their addresses.

pub mod migration;

pub use mongo_patterns::Repository;
use mongo_patterns::embedded::{EmbeddedRepository, EmbeddedRepositoryBuilder};
use mongo_patterns_testkit::TestDatabase;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use crate::common::on_shards;

pub type Patrons = EmbeddedRepository<Document, Document>;

pub fn builder(db: &TestDatabase) -> EmbeddedRepositoryBuilder<Document, Document> {
    Patrons::builder(db.collection::<Document>("patron"))
        .children_field("addresses")
        .child_id_field("id")
}

/// Returns a repository with a bound of five addresses.
pub fn patrons(db: &TestDatabase) -> Patrons {
    builder(db).max_children(5).build().unwrap()
}

/// Returns the collection, by a client that is not recorded.
pub fn stored(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("patron")
}

pub fn address(id: impl Into<Bson>) -> Document {
    doc! { "id": id, "street": "123 Fake Street", "zip": "12345" }
}

pub fn patron(id: impl Into<Bson>, addresses: impl IntoIterator<Item = Document>) -> Document {
    let addresses: Vec<Document> = addresses.into_iter().collect();
    doc! { "_id": id, "name": "Joe Bookreader", "addresses": addresses }
}

/// Inserts a patron, and clears the recorder.
pub async fn plant(db: &TestDatabase, patron: &Document) {
    on_shards(db, patrons(db).ensure_sharded()).await;
    stored(db).insert_one(patron).await.unwrap();
    db.recorder().clear();
}

/// Returns the stored value of the array field.
pub async fn addresses(db: &TestDatabase, id: impl Into<Bson>) -> Option<Bson> {
    let id: Bson = id.into();
    let patron = stored(db).find_one(doc! { "_id": { "$eq": id } }).await.unwrap();
    patron.unwrap().get("addresses").cloned()
}

/// Returns the elements of the array field.
pub async fn array(db: &TestDatabase, id: impl Into<Bson>) -> Vec<Bson> {
    match addresses(db, id).await {
        Some(Bson::Array(addresses)) => addresses,
        other => panic!("{other:?} is not an array"),
    }
}

/// Returns the ids of the addresses, in their order.
pub async fn ids(db: &TestDatabase, id: impl Into<Bson>) -> Vec<Bson> {
    let id_of = |address: &Bson| address.as_document().unwrap().get("id").unwrap().clone();
    array(db, id).await.iter().map(id_of).collect()
}
