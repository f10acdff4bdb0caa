//! The contacts of the manual, and their repositories.

use anyhow::Result;
use mongo_patterns_core::Repository;
use mongo_patterns_schema::SchemaRepository;
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use serde::{Deserialize, Serialize};

use crate::measure::settle;

/// Documents of one insert.
const BATCH: i64 = 1000;

pub(super) type Contacts = SchemaRepository<Document>;

#[derive(Serialize, Deserialize)]
struct ContactV1 {
    name: String,
    home: String,
    work: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContactV2 {
    name: String,
    contact_info: ContactInfo,
}

#[derive(Serialize, Deserialize)]
struct ContactInfo {
    home: String,
    work: String,
}

impl From<ContactV1> for ContactV2 {
    fn from(old: ContactV1) -> Self {
        let contact_info = ContactInfo {
            home: old.home,
            work: old.work,
        };
        let name = old.name;
        Self { name, contact_info }
    }
}

/// The stages of the step on the server.
pub(super) fn stages() -> Vec<Document> {
    vec![
        doc! { "$set": { "contactInfo.home": "$home", "contactInfo.work": "$work" } },
        doc! { "$unset": ["home", "work"] },
    ]
}

pub(super) fn typed(contacts: &Collection<Document>) -> Result<Contacts> {
    let step = |old: ContactV1| Ok(ContactV2::from(old));
    Ok(Contacts::builder(contacts.clone()).step(1, step).build()?)
}

pub(super) fn on_server(contacts: &Collection<Document>) -> Result<Contacts> {
    Ok(Contacts::builder(contacts.clone()).pipeline_step(1, stages()).build()?)
}

/// Returns a contact of version 1.
pub(super) fn old(id: i64) -> Document {
    doc! { "_id": id, "name": format!("contact{id:08}"), "home": "209-555-7788", "work": "503-555-0110", "n": 0 }
}

/// Returns the same one of version 2.
pub(super) fn new(id: i64) -> Document {
    doc! {
        "_id": id, "schemaVersion": 2, "name": format!("contact{id:08}"),
        "contactInfo": { "home": "209-555-7788", "work": "503-555-0110" }, "n": 0,
    }
}

/// Stores this number of documents in place of all others, with the index.
pub(super) async fn fill(contacts: &Collection<Document>, documents: i64, one: fn(i64) -> Document) -> Result<()> {
    contacts.drop().await?;
    typed(contacts)?.ensure_indexes().await?;
    for from in (0..documents).step_by(BATCH as usize) {
        contacts
            .insert_many((from..documents.min(from + BATCH)).map(one))
            .await?;
    }
    settle(contacts.client()).await
}
