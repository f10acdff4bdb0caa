//! Reads of current documents and of revisions.
//!
//! # Design
//!
//! ## Why does a read of the history also read the current document?
//!
//! A process without transactions can die between the change of a current document and its copy. Then the current document
//! is the only one with the newest revision. A copy is never newer than its current document, and a document gets its next
//! revision only after it has its copy. So if the current document is read first, the revisions that are read
//! afterwards have all earlier ones.

pub(crate) mod page;

use mongodb::options::{FindOneOptions, Hint};

use crate::form::document::Head;
use crate::query::options::Reader;
use crate::repository::prelude::*;

/// Names a missing index in the error of a command. Omits the driver's error, which would replace this one in the driver's
/// `and_run2`.
pub(crate) fn hinted(error: CommandError, index: &str) -> Error {
    match is_bad_hint(&error) {
        true => index_missing(index),
        false => error.into(),
    }
}

/// Reads the current document.
pub(crate) async fn find_current(
    shared: &Shared,
    id: &Bson,
    reader: Reader,
    session: Option<&mut Session<'_>>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let (filter, options) = (query::of_id(settings, id), options::find_current(settings, reader));
    let found = send::find_one(session, &shared.current, filter, options).await;
    found.map_err(|error| hinted(error, &settings.current_index))
}

async fn find_in_revisions(
    shared: &Shared,
    filter: Document,
    options: FindOneOptions,
    session: Option<&mut Session<'_>>,
) -> Result<Option<RawDocumentBuf>> {
    let index = match &options.hint {
        Some(Hint::Name(name)) => name.clone(),
        _ => String::new(),
    };
    let found = send::find_one(session, &shared.revisions, filter, options).await;
    found.map_err(|error| hinted(error, &index))
}

/// Reads a copy.
pub(crate) async fn find_copy(
    shared: &Shared,
    id: &Bson,
    revision: u64,
    reader: Reader,
    session: Option<&mut Session<'_>>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let filter = query::revision(settings, id, revision);
    find_in_revisions(shared, filter, options::find_revision(settings, reader), session).await
}

/// Reads what names the newest copy.
pub(crate) async fn find_newest(
    shared: &Shared,
    id: &Bson,
    session: Option<&mut Session<'_>>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let options = options::find_newest(settings, Reader::of_write(session.as_deref()));
    find_in_revisions(shared, query::of_id(settings, id), options, session).await
}

/// Reads what names the first copy after a revision.
pub(crate) async fn find_next(
    shared: &Shared,
    id: &Bson,
    revision: u64,
    session: Option<&mut Session<'_>>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let filter = query::beyond(settings, id, Some(revision), false);
    find_in_revisions(shared, filter, options::find_next(settings), session).await
}

/// Reads a revision: its copy, or the current document.
pub(crate) async fn find_revision(
    shared: &Shared,
    id: &Bson,
    revision: u64,
    reader: Reader,
    mut session: Option<&mut Session<'_>>,
) -> Result<Option<RawDocumentBuf>> {
    if let Some(copy) = find_copy(shared, id, revision, reader, session.as_deref_mut()).await? {
        return Ok(Some(copy));
    }
    let Some(current) = find_current(shared, id, reader, session.as_deref_mut()).await? else {
        return Ok(None);
    };
    match Head::of(&shared.settings, &current) {
        Some(head) if head.revision == revision => Ok(Some(current)),
        // Its copy was stored between the two reads, or it was pruned.
        Some(head) if head.revision > revision => find_copy(shared, id, revision, reader, session).await,
        _ => Ok(None),
    }
}

/// Reads the revision that a document had at a time.
pub(crate) async fn find_as_of(
    shared: &Shared,
    id: &Bson,
    time: DateTime,
    mut session: Option<&mut Session<'_>>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let reader = Reader::Caller;
    let current = find_current(shared, id, reader, session.as_deref_mut()).await?;
    if let Some(current) = current
        && Head::of(settings, &current).is_some_and(|head| head.time <= time)
    {
        return Ok(Some(current));
    }
    find_copy_as_of(shared, id, time, reader, session).await
}

/// Reads the newest copy up to a time.
pub(crate) async fn find_copy_as_of(
    shared: &Shared,
    id: &Bson,
    time: DateTime,
    reader: Reader,
    session: Option<&mut Session<'_>>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let options = options::find_as_of(settings, reader);
    find_in_revisions(shared, query::until(settings, id, time), options, session).await
}
