//! The migrations between references with copies, and documents with the ids of their sources alone.
//!
//! # Design
//!
//! ## Why is there a second read after each chunk?
//!
//! A source can be updated between the read of the server and its write: the update of the copies does not find the
//! document, which has none yet, and the copy is outdated for good. So the migration reads the sources of a chunk again, as
//! an insert does. It updates the copies that are older, and removes the mark of a deletion, which then finds the new
//! references.
//!
//! ## Why do the data show what is migrated, and not a position?
//!
//! A document that is migrated has another form, so a migration that was interrupted finds the others by their form. A
//! document that another program writes in the old form behind a position would be missed. The record in the catalog
//! shows the progress, keeps two calls apart, and shows that an earlier call did not finish: it may have died before a
//! second read, so the next one sweeps all copies.
//!
//! ## Why are there several passes?
//!
//! A chunk leaves a document unchanged whose references were changed concurrently. The next pass migrates it.

pub(crate) mod from_references;
pub(crate) mod settle;
pub(crate) mod to_references;

use std::future::Future;

use mongo_patterns_core::catalog::{Last, Record};
use mongo_patterns_core::error::code;
use mongo_patterns_core::migration::{Pace, number, refuse as refuse_found};

use crate::repository::prelude::*;

/// How many times a migration walks through the documents that are left, before it reports that others write them.
const PASSES: u32 = 10;

/// The result of a `$lookup` exceeds the limit of a document.
const LOOKUP_TOO_LARGE: i32 = 4568;

/// What the two migrations do with documents.
pub(crate) trait Rewrite: Sync {
    /// Walks through the documents to migrate.
    fn walk(&self, most: u64) -> Walk;

    /// Counts the documents to migrate, in the field `documents`, and those that cannot be migrated.
    fn inspection(&self) -> Vec<Document>;

    /// Fails when documents cannot be migrated.
    fn refuse(&self, found: &Document, end: End) -> Result<()>;

    /// Migrates the documents of a chunk. Returns how many.
    fn migrate(&self, conn: &mut Conn<'_>, chunk: &[Bson]) -> impl Future<Output = Result<u64>> + Send;
}

/// When documents were found that cannot be migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Before the first write.
    Refused,
    /// After the last chunk.
    Unfinished,
}

impl End {
    /// Adapts the error about a document that cannot be migrated, which reports that nothing was written.
    fn of(self, error: Error) -> Error {
        match (self, error.document_id(), error.field()) {
            (Self::Refused, ..) => error,
            (Self::Unfinished, Some(id), Some(field)) => left().at(id.clone(), field),
            (Self::Unfinished, ..) => left(),
        }
    }
}

fn left() -> Error {
    Error::new(
        ErrorKind::CountMismatch,
        "another program has changed references concurrently, or deleted their sources, so that a document cannot be migrated, the others are: see document_id(), then migrate again, which reports the problem",
    )
}

/// Reads the unfinished migration of these settings, and whether there was one at all.
///
/// # Errors
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for an unfinished migration of other settings.
async fn earlier(conn: &mut Conn<'_>, record: &Record, settings: &Document) -> Result<(Option<Last>, bool)> {
    let last = record.read(conn).await?;
    let has_begun = last.as_ref().is_some_and(|last| last.has(settings));
    let unfinished = last.filter(|last| !last.finished);
    if unfinished.is_some() && !has_begun {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "an unfinished migration of the collection has other fields, another filter or another direction, nothing was migrated: resume it with the same ones first",
        ));
    }
    Ok((unfinished, has_begun))
}

/// A reason why documents cannot be migrated, with the kind and the text of its error.
type Reason = (&'static str, ErrorKind, &'static str);

/// Fails when documents were found that cannot be migrated, for the first of the reasons, with one of them.
fn refuse(found: &Document, reasons: &[Reason], end: End) -> Result<()> {
    for (reason, kind, what) in reasons {
        let name = format!("{reason}One");
        let one = found.get_document(&name).cloned().unwrap_or_default();
        let mut found = found.clone();
        found.insert(name, one.get("id"));
        let field = one.get_str("field").unwrap_or_default();
        refuse_found(&found, reason, *kind, field, what).map_err(|error| end.of(error))?;
    }
    Ok(())
}

/// Counts the documents to migrate, and those that cannot be migrated.
async fn inspect(shared: &Shared, rewrite: &impl Rewrite, conn: &mut Conn<'_>) -> Result<Document> {
    let inspect = Step::aggregate("check the documents", shared.documents(), rewrite.inspection());
    Ok(conn.read(inspect).await.map_err(failed)?.first()?)
}

/// Migrates documents until none is left. Returns how many.
async fn migrate(
    shared: &Shared,
    rewrite: &impl Rewrite,
    conn: &mut Conn<'_>,
    (chunk, mut pace): (u64, Pace),
    (record, before): (&Record, u64),
    mut reporter: Reporter<'_>,
) -> Result<u64> {
    // The record has the number of documents that a plan knows too.
    let (mut migrated, mut walked) = (0, before);
    for _ in 0..PASSES {
        let walk = rewrite.walk(chunk);
        let purpose = "walk through the documents";
        let mut chunks = conn.chunks(purpose, walk, shared.documents()).await?;
        while let Some(chunk) = chunks.next_chunk().await? {
            let documents = rewrite.migrate(conn, &chunk.ids).await?;
            migrated += documents;
            walked += chunk.weight;
            record.advance(conn, &Bson::Null, walked).await?;
            conn.count_migrated(documents);
            reporter.advance(documents);
            pace.pause(conn, chunk.weight).await;
        }
        let purpose = "look for documents that are left";
        let left = Step::aggregate(purpose, shared.documents(), rewrite.inspection());
        let Some(left) = conn.read_written(left).await.map_err(failed)? else {
            return Ok(migrated);
        };
        let left = left.first()?;
        rewrite.refuse(&left, End::Unfinished)?;
        if number(&left, "documents") == 0 {
            return Ok(migrated);
        }
    }
    Err(Error::new(
        ErrorKind::CountMismatch,
        "another program writes references in the old form again and again, the other documents are migrated: stop it, then migrate again",
    ))
}

/// Converts the error of a command.
fn failed(error: CommandError) -> Error {
    match code(&error) {
        Some(LOOKUP_TOO_LARGE) => Error::from_driver(
            ErrorKind::TooLarge,
            "the sources of a document exceed MongoDB's limit of 16 MiB: copy fewer fields, or refer to fewer sources",
            error,
        ),
        _ if duplicate_key(&error).is_some() => Error::from_driver(
            ErrorKind::DuplicateKey,
            "a unique index of the application refused a document: drop it, or correct the document, then migrate again",
            error,
        ),
        _ => error.into(),
    }
}
