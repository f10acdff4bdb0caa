//! Guarded writes of one document: one command, and a read of the reason when it was refused.

use std::slice;

use mongo_patterns_core::action::record_attempts;
use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::by_id;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result};
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::FindOneOptions;
use tracing::Span;

use crate::form::{known_version_of, refused};
use crate::repository::Shared;
use crate::{convert, query};

/// What is done to a document.
pub(crate) enum Change {
    /// Update operators, which are for the newest version.
    Update(Document),
    /// The whole document, of any version that this program knows.
    Replace(RawDocumentBuf),
    /// The same, where other repositories own fields of it: the update keeps these.
    Merge(Vec<Document>),
    Delete,
}

/// Writes. Returns whether that changed anything.
pub(crate) async fn run(
    shared: &Shared,
    id: &DocumentId,
    change: Change,
    session: Option<&mut ClientSession>,
) -> Result<bool> {
    let (settings, id) = (&shared.settings, id.value());
    let change = match change {
        Change::Update(_) => change,
        change => with_others(&*shared.others().await?, change)?,
    };
    let mut conn = shared.enter(id, session).await?;
    let mut attempts = settings.retry.start();
    let mut was_converted = false;
    loop {
        record_attempts(&Span::current(), attempts.made());
        if let Some(is_changed) = send(shared, id, &change, &mut conn).await? {
            return Ok(is_changed);
        }
        let options = FindOneOptions::builder()
            .projection(doc! { settings.version.as_str(): 1 })
            .build();
        let Some(found) = conn.find_one(&shared.collection, by_id(id), options).await? else {
            return Err(Error::new(
                ErrorKind::NotFound,
                "there is no document with this `_id`, nothing was changed: insert it first",
            ));
        };
        let is_older = known_version_of(settings, &found)? < settings.steps.newest();
        let converts = is_older && matches!(change, Change::Update(_));
        if converts {
            convert::store(shared, slice::from_ref(id), &mut conn).await?;
        }
        if !converts || std::mem::replace(&mut was_converted, true) {
            let changed = CommandError::custom("the document changed after the write");
            attempts.next(changed).await?;
        }
    }
}

/// Lets a replacement keep what other repositories own, and refuses a deletion where their documents depend on the document.
fn with_others(others: &Others, change: Change) -> Result<Change> {
    match change {
        Change::Replace(document) if others.own_fields() => {
            let content = Document::try_from(&document).map_err(CommandError::from)?;
            Ok(Change::Merge(others.replace(doc! { "_id": "$_id" }, content, doc! {})))
        }
        Change::Delete => others.check_delete(None, |_| false).map(|()| change),
        change => Ok(change),
    }
}

/// Sends the write, guarded by the versions that it is for. `None` if it does not match the document.
async fn send(shared: &Shared, id: &Bson, change: &Change, conn: &mut Conn<'_>) -> Result<Option<bool>> {
    let (collection, settings) = (&shared.collection, &shared.settings);
    let updated = match change {
        Change::Delete => {
            let filter = query::guarded(by_id(id), query::not_newer(settings));
            let deleted = conn.delete_one(collection, filter, None).await?;
            return Ok((deleted.deleted_count > 0).then_some(true));
        }
        Change::Update(operators) => {
            let filter = query::guarded(by_id(id), query::newest(settings));
            conn.update_one(collection, filter, operators.clone(), None).await
        }
        Change::Replace(document) => {
            let filter = query::guarded(by_id(id), query::not_newer(settings));
            conn.replace_one(collection, filter, document.clone(), None).await
        }
        Change::Merge(update) => {
            let filter = query::guarded(by_id(id), query::not_newer(settings));
            conn.update_one(collection, filter, update.clone(), None).await
        }
    };
    let updated = updated.map_err(refused)?;
    Ok((updated.matched_count > 0).then_some(updated.modified_count > 0))
}
