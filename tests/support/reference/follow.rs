//! Programs that write customers and orders without the repository.

use mongo_patterns::reference::{Followed, Reference};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Collection, Database};

use crate::common::all;
use crate::reference::*;

pub const NAME: &str = "orders";

/// Orders with their customer, the products that were bought, and the customer as it was then; invoices with the customer.
pub fn of_all_kinds(db: &TestDatabase) -> Builder {
    all_kinds_in(db.database())
}

pub fn all_kinds_in(database: &Database) -> Builder {
    let invoices = database.collection::<Document>("invoices");
    builder(database)
        .copied_field("contact.mail", "mail")
        .add_reference(Reference::new("products").copied_fields(["name"]).array())
        .add_reference(Reference::new("soldAs").copied_fields(["name"]).snapshot())
        .add_referring(invoices, Reference::new("customer").copied_fields(["name"]))
}

/// Returns a repository over customers 1 to 3 whose follower has begun, with a clear recorder.
pub async fn followed(db: &TestDatabase, builder: Builder) -> Orders {
    let orders = ready(db, builder).await;
    catalog(db).delete_many(doc! { "_id.kind": "follower" }).await.unwrap();
    add_customers(db, 1..=3).await;
    let begun = follow(&orders).await;
    assert_eq!((begun.repaired, begun.written), (1, 0));
    db.recorder().clear();
    orders
}

/// Follows until it is current.
pub async fn follow(orders: &Orders) -> Followed {
    orders.follow(NAME).run_until_current().await.unwrap()
}

/// Follows until it is current, and checks that its own writes have no further ones. Returns the number of updated copies.
pub async fn settled(db: &TestDatabase, orders: &Orders, context: &str) -> u64 {
    let followed = follow(orders).await;
    assert_eq!(followed.repaired, 0, "{context}");
    let before = contents(db).await;
    let own = follow(orders).await;
    assert_eq!(own.written, 0, "{context}: {own:?}");
    assert_eq!(contents(db).await, before, "{context}");
    let none = follow(orders).await;
    assert_eq!(none.changes, 0, "{context}: its own changes have none");
    followed.written
}

/// Follows until it is current, and checks all copies. Returns the number of updated ones.
pub async fn corrected(db: &TestDatabase, orders: &Orders, context: &str) -> u64 {
    let copies = settled(db, orders, context).await;
    assert_eq!(findings(orders).await, [], "{context}");
    copies
}

/// Updates a customer without the repository.
pub async fn update_plainly(db: &TestDatabase, id: impl Into<Bson>, update: Document) {
    let id: Bson = id.into();
    let updated = customers(db).update_one(doc! { "_id": { "$eq": id } }, update).await;
    assert_eq!(updated.unwrap().matched_count, 1);
}

/// Returns the catalog.
pub fn catalog(db: &TestDatabase) -> Collection<Document> {
    db.plain_collection("mongo_patterns")
}

/// Returns the records of the followers.
pub async fn records(db: &TestDatabase) -> Vec<Document> {
    let mut records = all(&catalog(db)).await;
    records.retain(|record| record.get_document("_id").unwrap().get_str("kind").unwrap() == "follower");
    records
}

/// Returns how many commands with this name were sent to a collection.
pub fn sent(db: &TestDatabase, name: &str, collection: &str) -> usize {
    let commands = db.recorder().commands();
    let of = |document: &Document| document.get_str(name).is_ok_and(|of| of == collection);
    commands
        .iter()
        .filter(|command| command.name == name && of(&command.command))
        .count()
}
