//! The migration of existing collections.
//!
//! # Design
//!
//! ## Why are unequal revisions with one number refused?
//!
//! The manual's recipe stores a revision twice when two updates meet, and then the two are equal. Another program wrote
//! unequal ones, and only you know which is the revision.
//!
//! ## Why is the copy of a document stored before its number?
//!
//! A repository refuses to write a document without a number. With a number and no copy, a repository could change the
//! document in between, and its first revision would be lost.

use futures::TryStreamExt;
use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::by_ids;
use mongo_patterns_core::migration::{ChunkedFind, MigrationProgress, Step, number, refuse};
use mongo_patterns_core::stored::{id_of, value};
use mongo_patterns_core::{Error, ErrorKind, FieldName, Result};
use mongodb::bson::{Bson, Document};
use mongodb::options::FindOptions;

use crate::form::document::is_copy;
use crate::query::migrate as commands;
use crate::repository::Shared;
use crate::results::Migrated;

/// How many revisions one command deletes.
const BATCH: usize = 1000;

const OF_REVISIONS: &str =
    "documents have the field in which their revisions have their `_id`: use another name with document_id_field(..)";

/// Migrates existing collections.
pub(crate) async fn existing(
    shared: &Shared,
    embedded: Option<&FieldName>,
    conn: &mut Conn<'_>,
    mut progress: MigrationProgress<'_>,
) -> Result<Migrated> {
    let (current, settings) = (&shared.current, &shared.settings);
    let ensure = shared.ensure().corrects(&settings.revision_index);
    ensure.check_deployment(conn).await?;
    ensure.entry.check(conn).await?;
    let documents = inspect(shared, embedded, conn).await?;
    let mut removed_duplicates = duplicates(shared, false, conn, &mut progress).await?;
    if removed_duplicates > 0 {
        removed_duplicates = duplicates(shared, true, conn, &mut progress).await?;
    }
    let ensured = ensure.run(conn).await?;
    if progress.reporter.is_asked() {
        let count = Conn::new().count_documents(current, Document::new(), None).await?;
        progress.reporter.begin(count);
    }
    let walk = ChunkedFind::by_number(Document::new(), progress.chunk);
    let mut chunks = conn.chunks("walk through the documents", walk, current).await?;
    while let Some(chunk) = chunks.next_chunk().await? {
        let chunk_of = commands::Chunk {
            settings,
            embedded,
            current: current.name(),
            revisions: shared.revisions.name(),
            ids: &chunk.ids,
        };
        migrate_chunk(shared, chunk_of, documents > 0, conn).await?;
        progress.advance(conn, chunk.documents()).await;
    }
    Ok(Migrated {
        created_indexes: ensured.created,
        documents,
        removed_duplicates,
    })
}

/// Migrates the documents of a chunk. Some documents may have no number.
async fn migrate_chunk(
    shared: &Shared,
    chunk: commands::Chunk<'_>,
    may_number: bool,
    conn: &mut Conn<'_>,
) -> Result<()> {
    let (current, revisions) = (&shared.current, &shared.revisions);
    if let Some(array) = chunk.embedded.filter(|_| may_number) {
        let unwind = Step::aggregate("store the embedded versions as revisions", current, chunk.unwind(array));
        conn.write(unwind.acknowledged_by(revisions)).await?;
    }
    let record = Step::aggregate("store the missing copies of the documents", current, chunk.record());
    conn.write(record.acknowledged_by(revisions)).await?;
    if may_number {
        let purpose = "number the documents without a revision";
        let number = Step::aggregate(purpose, current, chunk.number_documents());
        conn.write(number.acknowledged_by(current)).await?;
    }
    Ok(())
}

/// Refuses documents that cannot be migrated. Returns the number of documents without a number.
async fn inspect(shared: &Shared, embedded: Option<&FieldName>, conn: &mut Conn<'_>) -> Result<u64> {
    let (settings, have_versions) = (&shared.settings, embedded.is_some());
    let mut unnumbered = 0;
    for (collection, are_revisions) in [(&shared.current, false), (&shared.revisions, true)] {
        let pipeline = commands::inspection(settings, are_revisions, have_versions);
        let inspect = Step::aggregate("check the documents", collection, pipeline);
        let counts = conn.read(inspect).await?.first()?;
        unnumbered += number(&counts, commands::UNNUMBERED);
        let check = |name, field: &FieldName, what| {
            let refused = refuse(&counts, name, ErrorKind::Corrupt, field.as_str(), what);
            refused.map_err(|error| error.of_collection(collection))
        };
        let id = if are_revisions {
            &settings.document_id
        } else {
            &settings.id
        };
        check("no_id", id, "documents have no valid id")?;
        let what = "documents have a number of the revision that is not an integer from 1";
        check("no_number", &settings.revision, what)?;
        check(
            "no_time",
            &settings.time,
            "documents have a time of the revision that is not a date",
        )?;
        let what = "documents have the field, but no number of a revision, so that no repository has written the field, and the next write would overwrite it: use another name with time_field(..), or set the number if it is the time of their revision";
        check("only_time", &settings.time, what)?;
        let what = "documents have the field, but no time of a revision, so that no repository has written the field, and the next write would overwrite it: use another name with revision_field(..), or set the time if it is the number of their revision";
        check("only_number", &settings.revision, what)?;
        let what = "documents have the field that marks a deletion: use another name with deleted_field(..)";
        check("reserved", &settings.deleted, what)?;
        check("of_revisions", &settings.document_id, OF_REVISIONS)?;
    }
    if let Some(array) = embedded {
        inspect_embedded(shared, array, conn).await?;
    }
    if unnumbered == 0 {
        return Ok(0);
    }
    let (purpose, revisions) = ("look for documents that lost their number", shared.revisions.name());
    let pipelines = [
        commands::unnumbered_with_revisions(settings, embedded, revisions),
        commands::other_than_copies(settings, embedded, revisions),
    ];
    for pipeline in pipelines {
        let strays = Step::aggregate(purpose, &shared.current, pipeline);
        let counts = conn.read(strays).await?.first()?;
        let what = "documents have revisions, but no number: set it to that of their newest revision";
        refuse(&counts, "n", ErrorKind::Corrupt, settings.revision.as_str(), what)?;
        if number(&counts, commands::RECORDED) == 0 {
            break;
        }
    }
    Ok(unnumbered)
}

async fn inspect_embedded(shared: &Shared, array: &FieldName, conn: &mut Conn<'_>) -> Result<()> {
    let settings = &shared.settings;
    let pipeline = commands::embedded_inspection(settings, array);
    let inspect = Step::aggregate("check the embedded versions", &shared.current, pipeline);
    let counts = conn.read(inspect).await?.first()?;
    let check = |name, what| refuse(&counts, name, ErrorKind::Corrupt, array.as_str(), what);
    let what =
        "documents have a value in the field of the embedded versions that is not an array of documents with a time";
    check("no_array", what)?;
    let what = "documents with embedded versions have a number of the revision";
    check("numbered", what)?;
    check("of_revisions", OF_REVISIONS)
}

/// Checks that revisions with the same number are equal, and may delete all except one. Returns how many.
async fn duplicates(
    shared: &Shared,
    removes: bool,
    conn: &mut Conn<'_>,
    progress: &mut MigrationProgress<'_>,
) -> Result<u64> {
    let pipeline = commands::duplicates(&shared.settings);
    let find = Step::aggregate("look for numbers that are stored twice", &shared.revisions, pipeline);
    let mut rows = conn.stream(find.in_order_of(["_id"])).await?;
    let (mut removed, mut surplus) = (0, Vec::new());
    loop {
        let row = rows.try_next().await?;
        if let Some(row) = &row {
            let Some(Bson::Array(ids)) = value(row, "ids") else {
                continue;
            };
            check_equal(shared, &ids, conn).await?;
            surplus.extend(ids.into_iter().skip(1));
        }
        if surplus.len() >= BATCH || row.is_none() && !surplus.is_empty() {
            let ids = std::mem::take(&mut surplus);
            removed += ids.len() as u64;
            if removes {
                let delete = Step::delete_many("delete equal revisions", &shared.revisions, by_ids(&ids));
                conn.write(delete).await?;
                progress.pace.pause(conn, ids.len() as u64).await;
            }
        }
        if row.is_none() {
            return Ok(removed);
        }
    }
}

/// Refuses revisions with one number that differ.
async fn check_equal(shared: &Shared, ids: &[Bson], conn: &mut Conn<'_>) -> Result<()> {
    let (revisions, settings) = (&shared.revisions, &shared.settings);
    let purpose = "compare the revisions with one number";
    let read = Step::find(purpose, revisions, by_ids(ids), FindOptions::default());
    let equal = conn.read(read.up_to(ids.len())).await?.documents;
    for pair in equal.windows(2) {
        if !is_copy(settings, &Others::default(), &pair[0], &pair[1])? {
            let message = "revisions of a document have the same number and other content, nothing was migrated: see document_id(), and delete or renumber those that are wrong";
            return Err(Error::corrupt(id_of(&pair[1]), settings.revision.as_str(), message).of_collection(revisions));
        }
    }
    Ok(())
}
