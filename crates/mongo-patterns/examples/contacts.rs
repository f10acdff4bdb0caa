//! The example of MongoDB's manual, "Maintain Different Schema Versions": contacts of two versions in one collection. Two
//! releases of a service write it at the same time, and the second one converts it.
//!
//! `cargo run --example contacts`

mod support;

use anyhow::Result;
use mongo_patterns::prelude::*;
use mongo_patterns_testkit::CommandRecorder;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Collection, Database};
use serde::{Deserialize, Serialize};
use support::shell;

/// Version 1.
#[derive(Debug, Serialize, Deserialize)]
struct ContactV1 {
    name: String,
    home: Option<String>,
    work: Option<String>,
}

/// Version 2.
#[derive(Debug, Serialize, Deserialize)]
struct Contact {
    name: String,
    #[serde(rename = "contactInfo")]
    info: ContactInfo,
}

#[derive(Debug, Serialize, Deserialize)]
struct ContactInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    cell: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    home: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<String>,
}

impl From<ContactV1> for Contact {
    fn from(old: ContactV1) -> Self {
        let info = ContactInfo {
            cell: None,
            home: old.home,
            work: old.work,
        };
        Self { name: old.name, info }
    }
}

/// The first release has no step. Its writes name the version that it understands.
fn first_release(database: &Database) -> Result<SchemaRepository<ContactV1>> {
    Ok(SchemaRepository::builder(database.collection::<Document>("contacts")).build()?)
}

fn second_release(database: &Database) -> Result<SchemaRepository<Contact>> {
    let contacts = database.collection::<Document>("contacts");
    Ok(SchemaRepository::builder(contacts)
        .step(1, |old: ContactV1| Ok(Contact::from(old)))
        .build()?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let (database, recorder) = support::open_recorded("contacts").await?;
    let stored: Collection<Document> = database.collection("contacts");
    let (first, second) = (first_release(&database)?, second_release(&database)?);
    second.ensure_indexes().await?;

    println!("# A contact of an old program, and one of the second release\n");
    stored
        .insert_one(doc! { "_id": 1, "name": "Taylor", "home": "209-555-7788", "work": "503-555-0110" })
        .await?;
    stored
        .insert_one(doc! {
            "_id": 2, "schemaVersion": 2, "name": "Cameron",
            "contactInfo": { "cell": "903-555-1122", "work": "670-555-7878", "instagram": "@camcam9090" },
        })
        .await?;
    print_stored(&stored).await?;

    recorder.clear();
    println!("# The second release reads both, and writes nothing\n");
    for id in [1, 2] {
        println!("{:?}", second.get(id).await?);
    }
    println!();
    print_wire(&recorder);

    println!("# The first release writes its own version\n");
    let work = |field: &str| doc! { "$set": { field: "999-999-9999" } };
    first.update(1, work("work")).await?;
    let refused = first.update(2, work("work")).await;
    print_wire(&recorder);
    if let Err(error) = refused {
        println!("{:?}: {error}\n", error.kind());
    }

    println!("# A query of the second release has a filter for each version\n");
    let found = second
        .find(work_is("contactInfo.work"))
        .older(1, work_is("work"))
        .await?;
    print_wire(&recorder);
    println!("{found:?}\n");

    println!("# An update converts the document first\n");
    second
        .update(1, doc! { "$set": { "contactInfo.cell": "903-555-0000" } })
        .await?;
    print_wire(&recorder);
    print_stored(&stored).await?;

    println!("# The migration converts the others\n");
    let others = (3..=6).map(|id| doc! { "_id": id, "name": format!("Contact {id}"), "work": "503-555-0110" });
    stored.insert_many(others).await?;
    for count in second.versions().await? {
        println!("{:?}: {} documents", count.version, count.documents);
    }
    let migrated = second.migrate().rate(5_000).await?;
    println!("Converted: {}", migrated.documents);
    for count in second.versions().await? {
        println!("{:?}: {} documents", count.version, count.documents);
    }
    Ok(())
}

fn work_is(field: &str) -> Document {
    doc! { field: "999-999-9999" }
}

/// Prints the commands, and forgets them.
fn print_wire(recorder: &CommandRecorder) {
    println!("On the wire:");
    for command in recorder.commands() {
        println!("  {}", shell::call(&command));
    }
    println!();
    recorder.clear();
}

async fn print_stored(collection: &Collection<Document>) -> Result<()> {
    use futures::TryStreamExt;

    let found: Vec<Document> = collection
        .find(doc! {})
        .sort(doc! { "_id": 1 })
        .await?
        .try_collect()
        .await?;
    let found: Vec<Bson> = found.into_iter().map(Bson::Document).collect();
    println!("Stored in {}:\n{}\n", collection.name(), shell::pretty(&found.into()));
    Ok(())
}
