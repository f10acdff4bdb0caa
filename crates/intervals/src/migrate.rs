//! The migration of existing documents.
//!
//! # Design
//!
//! ## Why does the client compute the intervals?
//!
//! Each start is after the one before, also where several are equal, and so depends on all before it. The server has no expression
//! for that which works in chunks. Only the four fields of each document are read.

use futures::TryStreamExt;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::{MigrationProgress, Step, count_if, refuse};
use mongo_patterns_core::{ErrorKind, FieldName, Result, document_id};
use mongodb::bson::doc;

use crate::query;
use crate::repair::Groups;
use crate::repair::correct::{StoredInterval, corrections};
use crate::repository::Shared;
use crate::results::Migrated;

/// The most updates in one command, which has to be smaller than 16 MiB.
const MAX_CHUNK: u64 = 10_000;

/// Migrates existing documents.
pub(crate) async fn migrate_existing(
    shared: &Shared,
    conn: &mut Conn<'_>,
    mut progress: MigrationProgress<'_>,
) -> Result<Migrated> {
    let (collection, settings) = (&shared.collection, &shared.settings);
    let ensure = shared.ensure();
    ensure.check_deployment(conn).await?;
    let is_stored = ensure.entry.check(conn).await?;
    inspect(shared, conn).await?;
    if progress.reporter.is_asked() {
        let count = Step::estimated_count("count the documents", collection);
        progress.reporter.begin(conn.read(count).await?.count);
    }
    let chunk = usize::try_from(progress.chunk.min(MAX_CHUNK)).unwrap_or(usize::MAX);
    let stages = [
        doc! { "$sort": query::order(settings, false) },
        doc! { "$project": query::head(settings) },
    ];
    let read = Step::aggregate("read the intervals of each id", collection, stages).batch_size(1000);
    let mut rows = conn.stream(read).await?;
    let mut groups = Groups::default();
    let (mut migrated, mut corrected, mut scanned) = (Migrated::default(), Vec::new(), 0);
    loop {
        let row = rows.try_next().await?;
        let group = match &row {
            Some(row) => groups.add(StoredInterval::read(settings, row)),
            None => groups.end(),
        };
        scanned += u64::from(row.is_some());
        corrected.extend(group.iter().flat_map(|group| corrections(settings, group)));
        while corrected.len() >= chunk || row.is_none() && !corrected.is_empty() {
            let rest = corrected.split_off(corrected.len().min(chunk));
            let statements = std::mem::replace(&mut corrected, rest);
            let documents = statements.len() as u64;
            let step = Step::update_in_order("correct the intervals", collection, statements);
            // One that another client has changed is left to the next call.
            migrated.corrected += conn.write(step).await?.map_or(documents, |reply| reply.matched);
            conn.count_migrated(documents);
            progress.reporter.advance(std::mem::take(&mut scanned));
            progress.pace.pause(conn, documents).await;
        }
        if row.is_none() {
            break;
        }
    }
    progress.reporter.advance(scanned);
    migrated.created_indexes = ensure.create_missing(conn).await?.created;
    if !is_stored {
        ensure.entry.store(conn).await?;
    }
    Ok(migrated)
}

/// Refuses documents that cannot be migrated.
async fn inspect(shared: &Shared, conn: &mut Conn<'_>) -> Result<()> {
    let settings = &shared.settings;
    let is_not = |field: &FieldName, types: &[&str]| {
        doc! { "$not": [{ "$in": [{ "$type": format!("${field}") }, types] }] }
    };
    let dates = ["missing", "null", "date"];
    let checks = [
        (
            "id",
            &settings.id,
            is_not(&settings.id, &document_id::TYPES),
            "documents have no valid id",
        ),
        (
            "from",
            &settings.from,
            is_not(&settings.from, &dates),
            "documents have a start that is not a date",
        ),
        (
            "to",
            &settings.to,
            is_not(&settings.to, &dates),
            "documents have an end that is not a date",
        ),
        (
            "valid",
            &settings.valid,
            is_not(&settings.valid, &["missing", "null", "bool"]),
            "documents have a mark of a valid document that is not a boolean",
        ),
    ];
    let mut group = doc! { "_id": null };
    for (name, _, is_invalid, _) in &checks {
        count_if(&mut group, name, is_invalid.clone(), 1, "$_id");
    }
    let inspect = Step::aggregate("check the documents", &shared.collection, [doc! { "$group": group }]);
    let counts = conn.read(inspect).await?.first()?;
    for (name, field, _, what) in checks {
        refuse(&counts, name, ErrorKind::Corrupt, field.as_str(), what)?;
    }
    Ok(())
}
