//! The deletion of a source.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::through::{self, Through};
use mongo_patterns_core::{Error, ErrorKind, Result, transaction};
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

/// A source to delete, by the repository of its references or through others.
#[derive(Clone, Copy)]
pub(crate) struct Deletion<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) id: &'a Bson,
    pub(crate) through: &'a Through<'a>,
}

/// Deletes a source, and does with the references to it what the rule says.
pub(crate) async fn delete(
    deletion: Deletion<'_>,
    rule: OnReferences,
    session: Option<&mut ClientSession>,
) -> Result<DeletedSource> {
    let Deletion { shared, id, .. } = deletion;
    shared.check_indexes().await?;
    let mut conn = shared.enter_source(id, session).await?;
    match rule {
        OnReferences::Restrict if is_in_transaction(&conn) => deletion.restrict_in_transaction(&mut conn).await,
        OnReferences::Restrict => deletion.restrict(&mut conn).await,
        OnReferences::KeepCopy | OnReferences::Clear => deletion.delete_with_references(rule, &mut conn).await,
    }
}

impl Deletion<'_> {
    /// Deletes the source if no document refers to it.
    async fn restrict(self, conn: &mut Conn<'_>) -> Result<DeletedSource> {
        let Self { shared, id, .. } = self;
        let mut attempts = shared.settings.retry.start();
        loop {
            let mark = ObjectId::new();
            let filter = query::by_id(id);
            let marked = conn
                .update_one(&shared.sources, filter, query::mark(mark), None)
                .await?;
            let found = marked.matched_count > 0;
            let own = query::marked(id, mark);
            if self.is_referenced(found, conn).await? {
                if found {
                    conn.update_one(&shared.sources, own, query::unmark(), None).await?;
                }
                return Err(referenced(found));
            }
            if !found {
                return Ok(DeletedSource::default());
            }
            match self.delete(own.clone(), conn).await {
                Ok(true) => return Ok(DeletedSource { found: true, copies: 0 }),
                Ok(false) => {}
                Err(error) => {
                    // Another repository refuses it. A mark that is left has no effect.
                    if !self.through.is_empty() && !error.is_transient() && !error.is_outcome_unknown() {
                        let unmarked = conn.update_one(&shared.sources, own, query::unmark(), None);
                        drop(unmarked.await);
                    }
                    return Err(error);
                }
            }
            // A new reference has removed the mark, or another deletion has replaced it.
            attempts
                .next(CommandError::custom(
                    "another client refers to the source or deletes it",
                ))
                .await?;
        }
    }

    /// Does what [`restrict`](Self::restrict) does. A new reference of another transaction writes the source, so one of the
    /// two conflicts.
    async fn restrict_in_transaction(self, conn: &mut Conn<'_>) -> Result<DeletedSource> {
        let found = find_source(self.shared, self.id, conn).await?.is_some();
        if self.is_referenced(found, conn).await? {
            return Err(referenced(found));
        }
        let found = found && self.delete(query::by_id(self.id), conn).await?;
        Ok(DeletedSource { found, copies: 0 })
    }

    /// Deletes the source, and then marks its copies or removes the references. A call after an interruption completes the
    /// rest.
    async fn delete_with_references(self, rule: OnReferences, conn: &mut Conn<'_>) -> Result<DeletedSource> {
        let Self { shared, id, .. } = self;
        let found = self.delete(query::by_id(id), conn).await?;
        let is_stored = found && !is_in_transaction(conn);
        let mut copies = 0;
        for field in shared.again(shared.settings.references.iter(), conn) {
            let update = update_of(field, id, rule);
            let updated = update_copies(shared, field, &update, conn).await;
            copies += updated.map_err(|error| match is_stored {
                true => deleted(error),
                false => error,
            })?;
        }
        Ok(DeletedSource { found, copies })
    }

    /// Deletes the source if it matches. Returns whether it does.
    async fn delete(self, filter: Document, conn: &mut Conn<'_>) -> Result<bool> {
        let Self { shared, id, through } = self;
        if through.is_empty() {
            let deleted = conn.delete_one(&shared.sources, filter, None).await?;
            return Ok(deleted.deleted_count > 0);
        }
        let context = (shared, id, through, filter);
        transaction::run(
            &shared.sources,
            &shared.settings.retry,
            conn,
            context,
            |conn, (shared, id, through, filter)| Box::pin(delete_through(shared, id, through, filter, conn)),
        )
        .await
    }

    /// Returns whether any document refers to the source. To an absent one, a copy that was kept refers on purpose.
    async fn is_referenced(self, found: bool, conn: &mut Conn<'_>) -> Result<bool> {
        let Self { shared, id, .. } = self;
        for field in shared.again(shared.settings.references.iter(), conn) {
            let options = options::find_reference(field);
            let filter = match found {
                true => query::referring(field, id),
                false => query::referring_to_existing(field, id),
            };
            let collection = shared.collection_of(field);
            let reference = conn.find_one(collection, filter, options).await;
            if reference?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Deletes a source that matches through other repositories, in a transaction, and keeps it without a mark.
async fn delete_through(
    shared: &Shared,
    id: &Bson,
    through: &Through<'_>,
    filter: &Document,
    conn: &mut Conn<'_>,
) -> Result<bool> {
    let unmarked = conn.update_one(&shared.sources, filter.clone(), query::unmark(), None);
    let found = unmarked.await?.matched_count > 0;
    if found {
        through::delete_found(through, id, conn).await?;
    }
    Ok(found)
}

/// Returns what a rule does with the copies of a deleted source.
pub(crate) fn update_of(field: &ReferenceField, source: &Bson, rule: OnReferences) -> CopyUpdate {
    match rule {
        OnReferences::Clear => CopyUpdate::clear(field, source),
        OnReferences::KeepCopy | OnReferences::Restrict => CopyUpdate::mark_deleted(field, source),
    }
}

fn referenced(found: bool) -> Error {
    let text = match found {
        true => {
            "documents refer to the source, nothing was deleted: remove the references first, or keep or clear them with on_references(..)"
        }
        false => {
            "documents refer to the source, which does not exist, nothing was deleted: insert or restore it, remove the references, or keep or clear them with on_references(..)"
        }
    };
    Error::new(ErrorKind::Referenced, text)
}

/// Adds to an error that the source is deleted, and replaces its text.
fn deleted(error: Error) -> Error {
    error.with_stored(1).with_text(
        "the source is deleted, but references to it may be left, because a command failed: see as_driver_error() for the reason, then call delete_source(..) with the same rule again",
    )
}
