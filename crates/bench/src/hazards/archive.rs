//! Sales with notes, while a job archives the old ones.
//!
//! The time of the archive moves on with the operations, so that the job has new documents each time. Some sales come late: they
//! are old when they are inserted.

use anyhow::Result;
use futures::TryStreamExt;
use mongo_patterns_archive::Archive;
use mongo_patterns_core::Repository;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::{Collection, Database};
use std::collections::HashMap;
use std::time::Duration;

use super::load::{Answer, Failure, Ledger, Write, write};
use super::recipe::{Hazards, Source};
use super::stored::{Times, all, elements};
use crate::bucket::scatter;

const SALES: i64 = 2000;
const COLLECTION: &str = "sales";
const ARCHIVE: &str = "archived_sales";
const NOTES: &str = "notes";
/// One of this number of operations runs the job.
const ARCHIVING: u64 = 40;
/// One of this number of operations inserts a late sale.
const LATE: u64 = 10;
/// The ids of late sales begin here.
const LATE_IDS: i64 = 1_000_000;
/// The most documents of a batch.
const BATCH: i64 = 100;

#[derive(Clone)]
struct Collections {
    sales: Collection<Document>,
    archived: Collection<Document>,
}

impl Collections {
    fn of(database: &Database) -> Self {
        Self {
            sales: database.collection(COLLECTION),
            archived: database.collection(ARCHIVE),
        }
    }

    fn archive(&self) -> Result<Archive<Document>> {
        let archive = Archive::builder(self.sales.clone(), self.archived.clone());
        Ok(archive.age_field("date").older_than(Duration::ZERO).build()?)
    }
}

pub(super) async fn prepare(source: Source, database: &Database) -> Result<()> {
    let collections = Collections::of(database);
    let sale = |id: i64| doc! { "_id": id, "date": at(id), NOTES: [] };
    collections.sales.insert_many((0..SALES).map(sale)).await?;
    match source {
        Source::Ours => drop(collections.archive()?.ensure_indexes().await?),
        _ => {
            let index = mongodb::IndexModel::builder().keys(doc! { "date": 1 }).build();
            collections.sales.create_index(index).await?;
        }
    }
    Ok(())
}

/// Returns the time of a sale.
fn at(id: i64) -> DateTime {
    DateTime::from_millis(1_514_764_800_000 + id * 1000)
}

/// Returns the time up to which an operation archives: that of half of its number.
fn cutoff(number: u64) -> DateTime {
    at(i64::try_from(number / 2).unwrap_or(SALES))
}

pub(super) fn writes(source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    let of_client = |database: &Database| {
        let collections = Collections::of(database);
        let archive = collections.archive()?;
        Ok(write(move |number| {
            let (collections, archive) = (collections.clone(), archive.clone());
            async move {
                if number.is_multiple_of(ARCHIVING) {
                    let cutoff = cutoff(number);
                    match source {
                        Source::Ours => drop(archive.run().before(cutoff).await?),
                        Source::InBatches => archive_batch(&collections, cutoff).await?,
                        Source::AgentSkills => archive_all(&collections, cutoff, "keepExisting").await?,
                        _ => archive_all(&collections, cutoff, "merge").await?,
                    }
                }
                add(&collections, number).await
            }
        }))
    };
    databases.iter().map(of_client).collect()
}

/// The application: it adds a note to a sale, or inserts a late one with a note.
async fn add(collections: &Collections, number: u64) -> Result<Answer, Failure> {
    let note = number as i64;
    if number % LATE == 3 {
        return insert_late(collections, note).await;
    }
    let sale = (scatter(number) % SALES as u64) as i64;
    let updated = collections
        .sales
        .update_one(doc! { "_id": sale }, doc! { "$addToSet": { NOTES: note } })
        .await?;
    // The caller knows that the sale is archived.
    Ok(if updated.matched_count > 0 {
        Answer::Done
    } else {
        Answer::Full
    })
}

/// Inserts a late sale, unless it is in one of the collections: a retry, whose first attempt is stored and may be archived by
/// now, would insert it again. In a transaction, because it can be archived between the two commands.
async fn insert_late(collections: &Collections, note: i64) -> Result<Answer, Failure> {
    let this = doc! { "_id": LATE_IDS + note };
    let late = doc! { "$setOnInsert": { "date": at(0), NOTES: [note] } };
    let mut session = collections.sales.client().start_session().await?;
    session.start_transaction().await?;
    let archived = collections.archived.find_one(this.clone()).session(&mut session);
    if archived.await?.is_none() {
        let upsert = collections.sales.update_one(this, late).upsert(true);
        upsert.session(&mut session).await?;
    }
    session.commit_transaction().await?;
    Ok(Answer::Done)
}

/// The manual's two commands.
async fn archive_all(collections: &Collections, cutoff: DateTime, matched: &str) -> Result<(), Failure> {
    let old = doc! { "date": { "$lt": cutoff } };
    merge(collections, &old, matched).await?;
    collections.sales.delete_many(old).await?;
    Ok(())
}

/// The agent skills, by a schedule: the ids of a batch, and the two commands for these.
async fn archive_batch(collections: &Collections, cutoff: DateTime) -> Result<(), Failure> {
    let found = collections
        .sales
        .find(doc! { "date": { "$lt": cutoff } })
        .projection(doc! { "_id": 1 })
        .limit(BATCH);
    let found: Vec<Document> = found.await?.try_collect().await?;
    let ids: Vec<Bson> = found.iter().filter_map(|found| found.get("_id").cloned()).collect();
    let batch = doc! { "_id": { "$in": ids } };
    merge(collections, &batch, "keepExisting").await?;
    collections.sales.delete_many(batch).await?;
    Ok(())
}

async fn merge(collections: &Collections, filter: &Document, matched: &str) -> Result<(), Failure> {
    let merge = doc! { "into": ARCHIVE, "on": "_id", "whenMatched": matched, "whenNotMatched": "insert" };
    let stages = [doc! { "$match": filter }, doc! { "$merge": merge }];
    drop(collections.sales.aggregate(stages).await?);
    Ok(())
}

pub(super) async fn check(database: &Database, ledger: &Ledger) -> Result<Hazards> {
    let (sales, archived) = (all(database, COLLECTION).await?, all(database, ARCHIVE).await?);
    hazards(&sales, &archived, ledger)
}

/// A note is read in the collection, or in the archive if the sale is only there. A sale in both is wrong.
fn hazards(sales: &[Document], archived: &[Document], ledger: &Ledger) -> Result<Hazards> {
    let mut read = HashMap::new();
    let mut wrong = 0;
    for sale in sales.iter().chain(archived) {
        match read.entry(sale.get_i64("_id")?) {
            std::collections::hash_map::Entry::Occupied(_) => wrong += 1,
            std::collections::hash_map::Entry::Vacant(entry) => drop(entry.insert(elements(sale, NOTES)?)),
        }
    }
    let mut times = Times::default();
    let notes = read.values().flat_map(|notes| notes.iter());
    notes.filter_map(Bson::as_i64).for_each(|note| times.add(note));
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
    fn a_note_that_no_reader_finds_is_lost() {
        let sale = |id: i64, notes: &[i64]| doc! { "_id": id, NOTES: notes };
        let ledger = Ledger::of(&[Fate::Acknowledged; 2]);
        let found = |sales: &[Document], archived: &[Document]| hazards(sales, archived, &ledger).unwrap();
        assert!(found(&[sale(1, &[0])], &[sale(2, &[1])]).is_none());
        // In both, and the one that is read does not have the note.
        let both = found(&[sale(1, &[])], &[sale(1, &[0]), sale(2, &[1])]);
        assert_eq!((both.lost, both.wrong), (1, 1));
        assert_eq!(found(&[sale(1, &[0])], &[]).lost, 1);
    }
}
