//! Updates of the copies of a source.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::send::Every;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result, error, send};
use mongodb::bson::{Bson, RawDocumentBuf};

use crate::form::id::distinct;
use crate::form::source::{Source, stored_version};
use crate::query;
use crate::query::{CopyUpdate, options, scan};
use crate::read::{find_source, find_sources};
use crate::repository::Shared;
use crate::settings::ReferenceField;
use crate::write::is_in_transaction;

/// Updates the outdated copies of a source. Returns the number of changed documents, for each reference.
pub(crate) async fn sweep(shared: &Shared, source: &Source, conn: &mut Conn<'_>) -> Result<u64> {
    let mut copies = 0;
    for field in shared.again(shared.settings.followed(), conn) {
        copies += sweep_field(shared, field, source, conn).await?;
    }
    Ok(copies)
}

/// Updates the outdated copies of a source in one reference field.
pub(crate) async fn sweep_field(
    shared: &Shared,
    field: &ReferenceField,
    source: &Source,
    conn: &mut Conn<'_>,
) -> Result<u64> {
    let update = CopyUpdate::sweep(&shared.settings, field, source);
    let swept = update_copies(shared, field, &update, conn).await;
    match swept {
        Err(error) if is_blocked(&error) && !is_in_transaction(conn) => {}
        swept => return swept,
    }
    for obstacle in CopyUpdate::obstacles(&shared.settings, field, source) {
        update_copies(shared, field, &obstacle, conn).await?;
    }
    update_copies(shared, field, &update, conn).await
}

/// Returns whether a stored value, of another program, is not a document with the path of an update.
fn is_blocked(error: &Error) -> bool {
    const PATH_NOT_VIABLE: i32 = 28;
    error.as_driver_error().and_then(error::code) == Some(PATH_NOT_VIABLE)
}

/// Updates copies in many documents. Idempotent, so it is retried after an unknown outcome. Returns the number of documents
/// that the last attempt changed.
pub(crate) async fn update_copies(
    shared: &Shared,
    field: &ReferenceField,
    update: &CopyUpdate,
    conn: &mut Conn<'_>,
) -> Result<u64> {
    let mut attempts = shared.settings.retry.start();
    let mut filter = update.filter.clone();
    loop {
        let mut every = Every::new(filter.clone(), update.update.clone());
        every.options = Some(options::update_copies(field, update));
        let updated = conn
            .update_every(shared.collection_of(field), every, &shared.is_router)
            .await;
        let error = match updated {
            Ok(updated) => return Ok(updated.modified_count),
            Err(error) => Error::from(error),
        };
        let is_in_transaction = is_in_transaction(conn);
        let without_arrays = query::without_arrays(field, filter.clone());
        if is_blocked(&error) && !is_in_transaction && without_arrays != filter {
            filter = without_arrays;
            continue;
        }
        let may_succeed = error.is_transient() || error.is_outcome_unknown();
        // The first took effect. For the second, the driver has waited already.
        let is_final = matches!(error.kind(), ErrorKind::WriteConcern | ErrorKind::ServerSelection);
        if is_in_transaction || is_final || !may_succeed || !attempts.wait().await {
            return Err(error);
        }
    }
}

/// Updates the outdated copies of all sources, by the lowest version of the copies of each source.
pub(crate) async fn sweep_all(shared: &Shared) -> Result<()> {
    let settings = &shared.settings;
    for field in settings.followed() {
        let (versions, options) = (scan::lowest_versions(settings, field), options::scan_copies());
        let mut rows = send::aggregate_rows(shared.collection_of(field), versions, options).await?;
        while let Some(batch) = send::next_rows(&mut rows, options::BATCH).await? {
            // The fields can have other values than references.
            let copies = batch
                .iter()
                .map(|row| (id_of(row), row))
                .filter(|(id, _)| DocumentId::new(id.clone()).is_ok());
            let copies: Vec<(Bson, &RawDocumentBuf)> = copies.collect();
            let ids = distinct(copies.iter().map(|(id, _)| id));
            let sources = find_sources(shared, &ids, &mut Conn::new()).await?;
            for (id, row) in &copies {
                let lowest = row.get("v").ok().flatten().and_then(stored_version);
                let is_outdated = |source: &&Source| lowest.is_none_or(|lowest| lowest < source.version);
                if let Some(source) = sources.get(id).filter(is_outdated) {
                    sweep(shared, source, &mut Conn::new()).await?;
                }
            }
        }
    }
    Ok(())
}

/// Removes the mark of a deleted source from all copies that follow it. Returns the number of changed documents; `None` if
/// it was deleted concurrently, and they are marked again.
pub(crate) async fn unmark_deleted(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Option<u64>> {
    let mut copies = 0;
    for field in shared.again(shared.settings.followed(), conn) {
        copies += update_copies(shared, field, &CopyUpdate::unmark_deleted(field, id), conn).await?;
    }
    if copies == 0 || find_source(shared, id, conn).await?.is_some() {
        return Ok(Some(copies));
    }
    for field in shared.again(shared.settings.followed(), conn) {
        update_copies(shared, field, &CopyUpdate::mark_deleted(field, id), conn).await?;
    }
    Ok(None)
}
