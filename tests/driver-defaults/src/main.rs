//! `mongodb::bson` is bson 3, because the driver is compiled once, with the features of all crates.

use mongo_patterns::prelude::*;
use mongodb::bson::{Document, doc, serialize_to_document};
use mongodb::{Collection, Database};

/// The collection and the documents of the service are those of the repository.
fn trades(database: &Database) -> Result<BucketRepository<u32, Document>, Error> {
    let collection: Collection<Document> = database.collection("trades");
    let builder = BucketRepository::builder(collection);
    builder.key_field("customerId").items_field("history").build()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // bson 2 calls it `to_document`.
    let trade: mongo_patterns::mongodb::bson::Document = serialize_to_document(&doc! { "qty": 1 })?;
    let _: fn(&Database) -> Result<_, Error> = trades;
    println!("{trade}");
    Ok(())
}
