//! The example of MongoDB's manual, "Model One-to-Many Relationships with Embedded Documents": a patron and two
//! addresses, first with references, then migrated on the server to embedded documents.
//!
//! `cargo run --example patron_addresses`

mod support;

use anyhow::Result;
use futures::TryStreamExt;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns_testkit::CommandRecorder;
use mongodb::bson::{Bson, Document, doc, serialize_to_bson};
use mongodb::{Collection, IndexModel};
use serde::{Deserialize, Serialize};
use support::shell;

#[derive(Debug, Serialize, Deserialize)]
struct Patron {
    #[serde(rename = "_id")]
    id: String,
    name: String,
    addresses: Vec<Address>,
}

/// The manual's addresses have no ids. Here they have one, so that each can be updated and removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Address {
    #[serde(rename = "_id")]
    id: i32,
    street: String,
    city: String,
    state: String,
    zip: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("patron_addresses").await?;
    let patron: Collection<Document> = database.collection("patron");
    let address: Collection<Document> = database.collection("address");

    println!("# References: an address contains the _id of its patron\n");
    patron
        .insert_one(doc! { "_id": "joe", "name": "Joe Bookreader" })
        .await?;
    for (id, street, city) in [(1, "123 Fake Street", "Faketon"), (2, "1 Some Other Street", "Boston")] {
        let document = doc! {
            "_id": id, "patron_id": "joe", "street": street, "city": city, "state": "MA", "zip": "12345",
        };
        address.insert_one(document).await?;
    }
    print_stored(&patron).await?;
    print_stored(&address).await?;

    recorder.clear();
    println!("# Reading a patron with all addresses takes two round trips\n");
    patron.find_one(doc! { "_id": "joe" }).await?;
    let _: Vec<Document> = address.find(doc! { "patron_id": "joe" }).await?.try_collect().await?;
    print_wire(&recorder);

    let patrons = EmbeddedRepository::<Patron, Address>::builder(patron.clone())
        .children_field("addresses")
        .max_children(3)
        .build()?;
    let by_patron = IndexModel::builder().keys(doc! { "patron_id": 1 }).build();
    address.create_index(by_patron).await?;
    recorder.clear();
    println!("# The migration, on the server: the command that writes\n");
    let migrated = patrons.migrate_from_references(&address, "patron_id").await?;
    print_writing(&recorder);
    println!(
        "Patrons: {}, addresses: {}, orphans: {}.\n",
        migrated.documents, migrated.children, migrated.orphans
    );
    print_stored(&patron).await?;

    recorder.clear();
    println!("# Embedded: reading a patron with all addresses takes one round trip\n");
    let joe = patrons.get("joe").await?;
    print_wire(&recorder);
    println!("{}\n", shell::pretty(&serialize_to_bson(&joe)?));

    recorder.clear();
    println!("# Add, update and read an address, reorder the addresses, and remove one\n");
    let new = Address {
        id: 3,
        street: "2 New Street".to_owned(),
        city: "Boston".to_owned(),
        state: "MA".to_owned(),
        zip: "12345".to_owned(),
    };
    patrons.add_child("joe", &new).await?;
    patrons
        .update_child("joe", 3, doc! { "$set": { "zip": "54321" } })
        .await?;
    patrons.child("joe", 3).await?;
    patrons.reorder_children("joe", [3, 1, 2]).await?;
    patrons.remove_child("joe", 2).await?;
    print_wire(&recorder);
    print_stored(&patron).await?;

    println!("# Each refused write has an error kind\n");
    patrons.add_child("joe", &Address { id: 4, ..new.clone() }).await?;
    let answers = [
        patrons.add_child("joe", &Address { id: 5, ..new.clone() }).await,
        patrons.add_child("joe", &new).await,
        patrons.add_child("jim", &new).await,
        patrons
            .update_child("joe", 7, doc! { "$set": { "zip": "54321" } })
            .await
            .map(drop),
    ];
    for error in answers.into_iter().filter_map(Result::err) {
        println!("{:?}: {error}", error.kind());
    }
    Ok(())
}

fn print_wire(recorder: &CommandRecorder) {
    println!("On the wire:");
    for command in recorder.commands() {
        println!("  {}", shell::call(&command));
    }
    println!();
}

/// Prints the migration command that writes, with one stage per line. The other commands check before it, and count
/// after it.
fn print_writing(recorder: &CommandRecorder) {
    println!("On the wire:");
    for command in recorder.commands() {
        let Ok(stages) = command.command.get_array("pipeline") else {
            continue;
        };
        let writes = |stage: &Bson| stage.as_document().is_some_and(|stage| stage.contains_key("$merge"));
        if !stages.iter().any(writes) {
            continue;
        }
        println!("  db.patron.aggregate([");
        for stage in stages {
            println!("    {},", shell::compact(stage));
        }
        println!("  ])");
    }
    println!();
}

async fn print_stored(collection: &Collection<Document>) -> Result<()> {
    let sorted = collection.find(doc! {}).sort(doc! { "_id": 1 });
    let stored: Vec<Document> = sorted.await?.try_collect().await?;
    println!("Stored in {}:\n{}\n", collection.name(), shell::pretty_all(stored));
    Ok(())
}
