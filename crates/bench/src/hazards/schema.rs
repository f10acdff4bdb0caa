//! Contacts with the calls to them, while the second release of a service is deployed beside the first one.
//!
//! The first release writes by `_id`, as a program does that knows of no versions. The manual converts nothing: its second
//! release has stored half of the contacts, and writes a document of either version. The agent skills convert when they
//! read, in batches, or at once.

use anyhow::Result;
use mongo_patterns_core::{ErrorKind, Repository};
use mongo_patterns_schema::SchemaRepository;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Collection, Database};

use super::load::{Answer, Failure, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::{Times, all, elements};
use crate::bucket::scatter;

const CONTACTS: i64 = 200;
const COLLECTION: &str = "contacts";
/// One of this number of operations runs the job that converts a batch.
const CONVERTING: u64 = 100;
/// The contacts of a batch: the job has converted all of them in the middle of the run.
const BATCH: i64 = 10;
/// One of this number of operations converts all.
const CONVERTING_ALL: u64 = 4000;
/// The list of calls in version 1.
const OLD: &str = "calls";
/// The document with this list in version 2.
const NEW: &str = "history";

type Contacts = SchemaRepository<Document>;

pub(super) async fn prepare(source: Source, database: &Database) -> Result<()> {
    let contacts = database.collection::<Document>(COLLECTION);
    let empty = |id: i64| doc! { "_id": id, "schemaVersion": 1, "name": "Taylor", OLD: [] };
    let stored = |id: i64| match source == Source::Manual && id % 2 == 0 {
        true => converted(empty(id)),
        false => empty(id),
    };
    contacts.insert_many((0..CONTACTS).map(stored)).await?;
    if source == Source::Ours {
        second_release(&contacts)?.ensure_indexes().await?;
    }
    Ok(())
}

fn first_release(contacts: &Collection<Document>) -> Result<Contacts> {
    Ok(Contacts::builder(contacts.clone()).build()?)
}

fn second_release(contacts: &Collection<Document>) -> Result<Contacts> {
    let step = |old: Document| Ok(converted(old));
    Ok(Contacts::builder(contacts.clone()).step(1, step).build()?)
}

/// Returns what a document of version 1 becomes.
fn converted(mut old: Document) -> Document {
    let calls = old.remove(OLD).unwrap_or_else(|| Bson::Array(Vec::new()));
    old.insert("schemaVersion", 2);
    old.insert(NEW, doc! { OLD: calls });
    old
}

fn contact(number: u64) -> i64 {
    (scatter(number) % CONTACTS as u64) as i64
}

/// Returns whether an operation arrives at an instance of the first release.
fn is_of_first_release(number: u64) -> bool {
    (scatter(number) >> 16).is_multiple_of(2)
}

/// Adds a call to the list of the first release or of the second.
fn add(number: u64, to_first: bool) -> Document {
    let list = if to_first {
        OLD.to_owned()
    } else {
        format!("{NEW}.{OLD}")
    };
    doc! { "$addToSet": { list: number as i64 } }
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let of_client = |database: &Database| {
        let contacts = database.collection::<Document>(COLLECTION);
        let (first, second) = (first_release(&contacts)?, second_release(&contacts)?);
        Ok(write(move |number| {
            let (first, second, contacts) = (first.clone(), second.clone(), contacts.clone());
            async move {
                match source {
                    Source::Ours => by_repository(&first, &second, number).await?,
                    _ => recipe(source, &contacts, number).await?,
                }
                Ok(Answer::Done)
            }
        }))
    };
    databases.iter().map(of_client).collect()
}

async fn by_repository(first: &Contacts, second: &Contacts, number: u64) -> Result<(), Failure> {
    let id = contact(number);
    if is_of_first_release(number) {
        match first.update(id, add(number, true)).await {
            // The request is retried at an instance of the second release.
            Err(error) if error.kind() == ErrorKind::NewerVersion => {}
            updated => return updated.map(drop).map_err(Failure::from),
        }
    }
    second.update(id, add(number, false)).await?;
    Ok(())
}

async fn recipe(source: Source, contacts: &Collection<Document>, number: u64) -> Result<(), Failure> {
    let this = doc! { "_id": contact(number) };
    match source {
        Source::InBatches if number.is_multiple_of(CONVERTING) => convert_batch(contacts).await?,
        // In the middle of the run, and again.
        Source::ByUpdateMany if number % CONVERTING_ALL == CONVERTING_ALL / 2 => {
            contacts.update_many(older(), conversion_on_server()).await?;
        }
        _ => {}
    }
    if is_of_first_release(number) {
        contacts.update_one(this, add(number, true)).await?;
        return Ok(());
    }
    match source {
        Source::Manual => {
            contacts.update_one(this, add_to_either(number)).await?;
            return Ok(());
        }
        Source::AgentSkills => convert_at_read(contacts, &this).await?,
        _ => {}
    }
    add_to_known_version(contacts, this, number).await
}

/// The recipe of the agent skills that converts a document when it is read.
async fn convert_at_read(contacts: &Collection<Document>, this: &Document) -> Result<(), Failure> {
    let found = contacts.find_one(this.clone()).await?.unwrap_or_default();
    if is_old(&found) {
        contacts.replace_one(this.clone(), converted(found)).await?;
    }
    Ok(())
}

/// The recipe of the agent skills that converts by a job in the background.
async fn convert_batch(contacts: &Collection<Document>) -> Result<(), Failure> {
    let mut found = contacts.find(older()).limit(BATCH).await?;
    while found.advance().await? {
        let old = found.deserialize_current()?;
        let mut this = older();
        this.insert("_id", old.get_i64("_id").unwrap_or_default());
        let new = converted(old);
        let set = doc! { "schemaVersion": 2, NEW: new.get(NEW).cloned() };
        let update = doc! { "$set": set, "$unset": { OLD: "" } };
        contacts.update_one(this, update).await?;
    }
    Ok(())
}

/// Returns the pipeline of the agent skills that converts all documents.
fn conversion_on_server() -> Vec<Document> {
    let set = doc! { "schemaVersion": 2, NEW: { OLD: { "$ifNull": [format!("${OLD}"), []] } } };
    vec![doc! { "$set": set }, doc! { "$unset": [OLD] }]
}

fn older() -> Document {
    doc! { "schemaVersion": { "$lt": 2 } }
}

fn is_old(contact: &Document) -> bool {
    contact.get_i32("schemaVersion").is_ok_and(|version| version < 2)
}

/// Adds to the list of the version that the second release reads, and reads again if it has changed since.
async fn add_to_known_version(contacts: &Collection<Document>, this: Document, number: u64) -> Result<(), Failure> {
    for is_first in [true, false] {
        let mut of_version = this.clone();
        of_version.insert("schemaVersion", if is_first { 1 } else { 2 });
        if contacts
            .update_one(of_version, add(number, is_first))
            .await?
            .matched_count
            > 0
        {
            break;
        }
    }
    Ok(())
}

/// The update of the manual for documents of either version.
fn add_to_either(number: u64) -> Vec<Document> {
    let list = |version: i32, list: &str| {
        let added = doc! { "$setUnion": [format!("${list}"), [number as i64]] };
        let is_version = doc! { "$eq": ["$schemaVersion", version] };
        doc! { "$cond": { "if": is_version, "then": added, "else": Bson::Null } }
    };
    let of_new = format!("{NEW}.{OLD}");
    vec![doc! { "$set": { OLD: list(1, OLD), &of_new: list(2, &of_new) } }]
}

pub(super) async fn check(database: &Database, ledger: &Ledger) -> Result<Hazards> {
    hazards(&all(database, COLLECTION).await?, ledger)
}

/// A call that the second release does not read is lost, and its document wrong.
fn hazards(contacts: &[Document], ledger: &Ledger) -> Result<Hazards> {
    let mut times = Times::default();
    let mut wrong = 0;
    for contact in contacts {
        let is_new = contact.get_i32("schemaVersion").is_ok_and(|version| version == 2);
        let read = match is_new {
            true => elements(contact.get_document(NEW)?, OLD)?,
            false => elements(contact, OLD)?,
        };
        read.iter()
            .filter_map(Bson::as_i64)
            .for_each(|number| times.add(number));
        wrong += u64::from(contact.contains_key(if is_new { OLD } else { NEW }));
    }
    Ok(Hazards {
        lost: times.lost(ledger, |_| true),
        doubled: times.doubled(),
        wrong,
        ..Hazards::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::load::Fate;
    use super::*;

    #[test]
    fn a_call_that_no_reader_finds_is_lost() {
        let old = doc! { "_id": 1, "schemaVersion": 1, OLD: [0_i64] };
        let new = doc! { "_id": 2, "schemaVersion": 2, NEW: { OLD: [1_i64] } };
        let both = doc! { "_id": 2, "schemaVersion": 2, NEW: { OLD: [] }, OLD: [1_i64] };
        let ledger = Ledger::of(&[Fate::Acknowledged; 2]);
        let found = |contacts: &[Document]| hazards(contacts, &ledger).unwrap();
        assert!(found(&[old.clone(), new.clone()]).is_none());
        let lost = found(&[old.clone(), both]);
        assert_eq!((lost.lost, lost.wrong), (1, 1));
        assert_eq!(found(&[converted(old.clone()), new.clone()]).lost, 0);
        let twice = doc! { "_id": 3, "schemaVersion": 2, NEW: { OLD: [1_i64] } };
        assert_eq!(found(&[old, new, twice]).doubled, 1);
    }
}
