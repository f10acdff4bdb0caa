//! The deletion of a source.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document};

use crate::query;
use crate::query::{CopyUpdate, options};
use crate::read::find_source;
use crate::repository::Shared;
use crate::results::{DeletedSource, OnReferences};
use crate::settings::ReferenceField;
use crate::write::is_in_transaction;
use crate::write::sweep::update_copies;

/// Deletes a source, and does with the references to it what the rule says.
pub(crate) async fn delete(
    shared: &Shared,
    id: &Bson,
    rule: OnReferences,
    session: Option<&mut ClientSession>,
) -> Result<DeletedSource> {
    shared.check_indexes().await?;
    let mut conn = shared.enter_source(id, session).await?;
    match rule {
        OnReferences::Restrict if is_in_transaction(&conn) => restrict_in_transaction(shared, id, &mut conn).await,
        OnReferences::Restrict => restrict(shared, id, &mut conn).await,
        OnReferences::KeepCopy | OnReferences::Clear => delete_with_references(shared, id, rule, &mut conn).await,
    }
}

/// Deletes the source if no document refers to it.
async fn restrict(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<DeletedSource> {
    let mut attempts = shared.settings.retry.start();
    loop {
        let mark = ObjectId::new();
        let filter = query::by_id(id);
        let marked = conn
            .update_one(&shared.sources, filter, query::mark(mark), None)
            .await?;
        if marked.matched_count == 0 {
            return Ok(DeletedSource::default());
        }
        let own = query::marked(id, mark);
        if is_referenced(shared, id, conn).await? {
            conn.update_one(&shared.sources, own, query::unmark(), None).await?;
            return Err(referenced());
        }
        if delete_source(shared, own, conn).await? {
            return Ok(DeletedSource { found: true, copies: 0 });
        }
        // A new reference has removed the mark, or another deletion has replaced it.
        attempts
            .next(CommandError::custom(
                "another client refers to the source or deletes it",
            ))
            .await?;
    }
}

/// Does what [`restrict`] does. A new reference of another transaction writes the source, so that one of the two
/// conflicts.
async fn restrict_in_transaction(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<DeletedSource> {
    if find_source(shared, id, conn).await?.is_none() {
        return Ok(DeletedSource::default());
    }
    if is_referenced(shared, id, conn).await? {
        return Err(referenced());
    }
    let found = delete_source(shared, query::by_id(id), conn).await?;
    Ok(DeletedSource { found, copies: 0 })
}

/// Deletes the source, and then marks its copies or removes the references. A call after an interrupted one finds no
/// source, and completes the rest.
async fn delete_with_references(
    shared: &Shared,
    id: &Bson,
    rule: OnReferences,
    conn: &mut Conn<'_>,
) -> Result<DeletedSource> {
    let found = delete_source(shared, query::by_id(id), conn).await?;
    let is_stored = found && !is_in_transaction(conn);
    let mut copies = 0;
    for field in &shared.settings.references {
        let update = update_of(field, id, rule);
        let updated = update_copies(shared, field, &update, conn).await;
        copies += updated.map_err(|error| match is_stored {
            true => deleted(error),
            false => error,
        })?;
    }
    Ok(DeletedSource { found, copies })
}

/// Returns what a rule does with the copies of a deleted source.
pub(crate) fn update_of(field: &ReferenceField, source: &Bson, rule: OnReferences) -> CopyUpdate {
    match rule {
        OnReferences::Clear => CopyUpdate::clear(field, source),
        OnReferences::KeepCopy | OnReferences::Restrict => CopyUpdate::mark_deleted(field, source),
    }
}

async fn delete_source(shared: &Shared, filter: Document, conn: &mut Conn<'_>) -> Result<bool> {
    let deleted = conn.delete_one(&shared.sources, filter, None).await?;
    Ok(deleted.deleted_count > 0)
}

/// Returns whether any document refers to the source.
async fn is_referenced(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<bool> {
    for field in &shared.settings.references {
        let options = options::find_reference(field);
        let filter = query::referring(field, id);
        let collection = shared.collection_of(field);
        let reference = conn.find_one(collection, filter, options).await;
        if reference?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn referenced() -> Error {
    Error::new(
        ErrorKind::Referenced,
        "documents refer to the source, nothing was deleted: remove the references first, or keep or clear them with on_references(..)",
    )
}

/// Adds to an error that the source is deleted, and replaces its text.
fn deleted(error: Error) -> Error {
    error.with_stored(1).with_text(
        "the source is deleted, but references to it may be left, because a command failed: see as_driver_error() for the reason, then call delete_source(..) with the same rule again",
    )
}
