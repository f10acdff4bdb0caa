//! The second read of the sources, after copies of them were stored.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::with_ids;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::transaction::lock_documents;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document};

use crate::form::copy;
use crate::form::id::distinct;
use crate::form::source::Source;
use crate::query;
use crate::query::{CopyUpdate, options};
use crate::read::{Sources, find_named, find_sources};
use crate::repository::Shared;
use crate::results::no_source;
use crate::settings::ReferenceField;

/// A copy that a call has stored.
#[derive(Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) field: &'a ReferenceField,
    /// The `_id` of its source.
    pub(crate) source: Bson,
    pub(crate) version: u64,
}

/// Reads the sources of new copies, by [distinct] names. In a transaction of the caller, locks them first: other writers of
/// the sources wait for its end, or conflict.
pub(crate) async fn read_sources(shared: &Shared, names: &[Bson], conn: &mut Conn<'_>) -> Result<Sources> {
    if names.is_empty() {
        return Ok(Sources::default());
    }
    let is_in_transaction = super::is_in_transaction(conn);
    if is_in_transaction {
        let filter = with_ids(shared.settings.named_by(), names);
        lock_documents(conn, &shared.sources, &filter).await?;
    }
    let sources = find_named(shared, names, conn).await?;
    if names.iter().any(|name| sources.get(name).is_none()) {
        return Err(no_source());
    }
    if is_in_transaction {
        unmark_all(shared, &sources, conn).await?;
    }
    Ok(sources)
}

/// Removes the marks of deletions from locked sources: a deletion must check the references again.
pub(crate) async fn unmark_all(shared: &Shared, sources: &Sources, conn: &mut Conn<'_>) -> Result<()> {
    for source in sources.iter() {
        unmark(shared, source, conn).await?;
    }
    Ok(())
}

/// Removes the mark of a deletion from a source, so that the deletion checks the references again. Returns `false` if it has
/// another mark by now, or was deleted.
pub(crate) async fn unmark(shared: &Shared, source: &Source, conn: &mut Conn<'_>) -> Result<bool> {
    let Some(mark) = source.mark else { return Ok(true) };
    let filter = query::marked(&source.id, mark);
    let updated = conn.update_one(&shared.sources, filter, query::unmark(), None).await?;
    Ok(updated.matched_count > 0)
}

/// Makes copies that a call has stored in a document current: reads their sources again, updates older copies, and stops
/// deletions of the sources. Returns the copies whose source was deleted, which are still there. In a transaction of the
/// caller there is nothing to do.
pub(crate) async fn settle<'a>(
    shared: &Shared,
    document: &Bson,
    mut placed: Vec<Placed<'a>>,
    conn: &mut Conn<'_>,
) -> Result<Vec<Placed<'a>>> {
    if placed.is_empty() || super::is_in_transaction(conn) {
        return Ok(Vec::new());
    }
    let mut attempts = shared.settings.retry.start();
    loop {
        let ids = distinct(placed.iter().map(|copy| &copy.source));
        let sources = find_sources(shared, &ids, conn).await?;
        let mut is_done = true;
        for source in sources.iter() {
            is_done &= unmark(shared, source, conn).await?;
        }
        for copy in &mut placed {
            let Some(source) = sources.get(&copy.source) else {
                continue;
            };
            if !copy.field.is_snapshot && source.version > copy.version {
                update(shared, copy.field, document, source, conn).await?;
                copy.version = source.version;
            }
        }
        if is_done {
            placed.retain(|copy| sources.get(&copy.source).is_none());
            return Ok(placed);
        }
        attempts.next(CommandError::custom("a source is being deleted")).await?;
    }
}

/// Updates the copy in one document, unless it is as new.
async fn update(
    shared: &Shared,
    field: &ReferenceField,
    document: &Bson,
    source: &Source,
    conn: &mut Conn<'_>,
) -> Result<()> {
    let update = CopyUpdate::sweep(&shared.settings, field, source).of_document(document);
    let options = options::update_copy(&update);
    conn.update_one(shared.collection_of(field), update.filter, update.update, options)
        .await?;
    Ok(())
}

/// Returns a new copy of a source without further fields.
pub(crate) fn new_copy(shared: &Shared, field: &ReferenceField, source: &Source) -> Document {
    copy::new(&shared.settings, field, source, None)
}

/// Adds to an error that the document is stored, and replaces its text, which would report that nothing was stored.
pub(crate) fn stored(error: Error) -> Error {
    let text = match error.kind() {
        ErrorKind::Contention => {
            "the document is written, but other clients delete one of its sources again and again, so the reference may have no source: call repair()"
        }
        ErrorKind::Unauthorized => {
            "the document is written, but the user lacks a privilege to read its sources again or to update their copies, which may be outdated: grant the role `readWrite`, then call refresh_copies() for the sources"
        }
        _ => {
            "the document is written, but it is unknown whether the copies of its sources are current, because a command failed: see as_driver_error() for the reason, then call repair()"
        }
    };
    error.with_stored(1).with_text(text)
}
