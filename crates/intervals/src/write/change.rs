//! The change of an interval, with the copy of what it was.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, duplicate_key};
use mongo_patterns_core::field::no_array;
use mongo_patterns_core::{Error, ErrorKind, Result, transaction};
use mongodb::ClientSession;
use mongodb::bson::{Bson, DateTime, RawDocument, RawDocumentBuf, doc};
use mongodb::options::{Hint, ReturnDocument, UpdateOptions};

use super::{check_expected, check_start, mark, refused};
use crate::form::{Times, after, copy};
use crate::query::{self, Change};
use crate::read::{Known, find_begun, find_current_interval, find_interval_at};
use crate::repository::Shared;
use crate::results::Begun;

/// A change that a call asks for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) change: Change,
    /// The start that the interval must have.
    pub(crate) expected: Option<DateTime>,
    /// The new start, if it is not now.
    pub(crate) from: Option<DateTime>,
}

/// Divides an interval: changes the later part of it, and keeps the earlier one as it was.
pub(crate) async fn change(
    shared: &Shared,
    id: &Bson,
    request: Request,
    session: Option<&mut ClientSession>,
) -> Result<Begun> {
    check_start(request.from)?;
    shared.check_write().await?;
    if matches!(request.change, Change::Replace(_)) {
        shared.others().await?;
    }
    let mut conn = shared.enter(id, session).await?;
    let (collection, retry) = (&shared.collection, &shared.settings.retry);
    let context = (shared, id, &request);
    let begun = transaction::run(collection, retry, &mut conn, context, |conn, (shared, id, request)| {
        Box::pin(change_in(shared, id, request, conn))
    });
    begun.await
}

async fn change_in(shared: &Shared, id: &Bson, request: &Request, conn: &mut Conn<'_>) -> Result<Begun> {
    if let Some(from) = request.from {
        return change_from(shared, id, request, from, conn).await;
    }
    let now = DateTime::now();
    if let Some(before) = change_valid(shared, id, request, (now, request.expected, true), conn).await? {
        return insert_earlier(shared, &before, now, conn).await;
    }
    let current = find_current_interval(shared, id, conn).await?;
    check_expected(request.expected, current.times.from)?;
    // The clock that set the start can have been ahead.
    let from = after(current.times.from).max(current.now);
    change_current(shared, id, request, (current, from), conn).await
}

/// Changes what is valid from a time that the caller has chosen.
async fn change_from(
    shared: &Shared,
    id: &Bson,
    request: &Request,
    from: DateTime,
    conn: &mut Conn<'_>,
) -> Result<Begun> {
    let divided = find_interval_at(shared, id, from, conn).await?;
    check_expected(request.expected, divided.times.from)?;
    if divided.times.from == from {
        return Err(begins_already());
    }
    if from <= divided.now && divided.times.is_current(divided.now) {
        return change_current(shared, id, request, (divided, from), conn).await;
    }
    if divided.times.is_current(divided.now) {
        mark(shared, id, &divided, conn).await?;
    } else if let Some(current) = find_begun(shared, id, conn).await? {
        mark(shared, id, &current, conn).await?;
    }
    let (collection, settings) = (&shared.collection, &shared.settings);
    let Times { from: start, to, .. } = divided.times;
    let mut filter = query::of_document(settings, id, &divided.document_id);
    filter.extend(doc! { settings.from.as_str(): start, settings.to.as_str(): to });
    let shortened = doc! { "$set": { settings.to.as_str(): from } };
    let before = conn
        .find_one_and_update(collection, filter, shortened, query::shorten(settings))
        .await?;
    let before = before.ok_or_else(|| Error::new(ErrorKind::Driver, "the server returned no document for a change"))?;
    let is_valid = false;
    insert_copy(shared, &before, Times { from, to, is_valid }, conn).await?;
    let mut later = query::of_id(settings, id);
    later.insert(settings.from.as_str(), from);
    let options = UpdateOptions::builder()
        .hint(Hint::Name(settings.start_index.clone()))
        .build();
    let update = request.change.update(settings, from, &shared.known_others());
    let changed = conn.update_one(collection, later, update, options).await;
    changed.map_err(|error| not_changed(shared, error))?;
    Ok(Begun { valid_from: from })
}

/// Changes the current document from a time in its interval.
async fn change_current(
    shared: &Shared,
    id: &Bson,
    request: &Request,
    (current, from): (Known, DateTime),
    conn: &mut Conn<'_>,
) -> Result<Begun> {
    if from >= current.times.to {
        return Err(begins_already());
    }
    mark(shared, id, &current, conn).await?;
    let before = change_valid(shared, id, request, (from, None, false), conn).await?;
    let before = before.ok_or_else(|| Error::new(ErrorKind::Driver, "the server returned no document for a change"))?;
    insert_earlier(shared, &before, from, conn).await
}

/// Changes the valid document, if it begins before a time, and at the expected one. Returns it as it was. `None` if none
/// matched.
async fn change_valid(
    shared: &Shared,
    id: &Bson,
    request: &Request,
    (from, expected, must_be_now): (DateTime, Option<DateTime>, bool),
    conn: &mut Conn<'_>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let mut filter = query::valid_before(settings, id, from, expected);
    filter.insert(settings.to.as_str(), no_array(doc! { "$gt": from }));
    if must_be_now {
        filter.extend(query::is_now(from));
    }
    let update = request.change.update(settings, from, &shared.known_others());
    let options = query::change(settings, false, ReturnDocument::Before);
    let before = conn
        .find_one_and_update(&shared.collection, filter, update, options)
        .await;
    before.map_err(|error| not_changed(shared, error))
}

/// Converts the error of a change of a document.
fn not_changed(shared: &Shared, error: CommandError) -> Error {
    match is_start_taken(shared, &error) {
        Some(true) => overlapping().caused_by(error),
        Some(false) => refused().caused_by(error),
        None => error.into(),
    }
}

/// Inserts the document as it was, until the new start.
async fn insert_earlier(shared: &Shared, before: &RawDocument, until: DateTime, conn: &mut Conn<'_>) -> Result<Begun> {
    let Times { from, .. } = Times::stored_in(&shared.settings, before)?;
    let (to, is_valid) = (until, false);
    insert_copy(shared, before, Times { from, to, is_valid }, conn).await?;
    Ok(Begun { valid_from: until })
}

/// Inserts a copy of a document with another interval.
async fn insert_copy(shared: &Shared, document: &RawDocument, times: Times, conn: &mut Conn<'_>) -> Result<()> {
    let copy: RawDocumentBuf = copy(&shared.settings, document, times)?;
    let inserted = conn.insert_many(&shared.collection, vec![copy], None).await;
    inserted.map_err(|error| match is_start_taken(shared, &error) {
        Some(true) => overlapping().caused_by(error),
        Some(false) => Error::new(
            ErrorKind::DuplicateKey,
            "a unique index of the application refused the copy of the document as it was, nothing was changed: restrict the index to valid documents, by a partial filter",
        )
        .caused_by(error),
        None => error.into(),
    })?;
    Ok(())
}

/// Returns whether the index of the starts refused a write. `None` if no unique index did.
fn is_start_taken(shared: &Shared, error: &CommandError) -> Option<bool> {
    let duplicate = duplicate_key(error)?;
    Some(duplicate.index.as_ref() == Some(&shared.settings.start_index))
}

/// The error of intervals that overlap.
fn overlapping() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "two intervals of the id overlap, because another program wrote one of them, nothing was changed: call verify()",
    )
}

/// The error of a start that another interval has.
fn begins_already() -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        "an interval of the id begins at this time already, nothing was changed: choose another start",
    )
}
