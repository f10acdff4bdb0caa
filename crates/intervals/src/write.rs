//! Writes: the change of a valid document with the copy of what it was, the insert, and the end.
//!
//! # Design
//!
//! ## Why does a change take the time of the client?
//!
//! It returns the document as it was, for the copy, so it cannot also return a time that the server chose. The server only
//! accepts a time that is near its own clock and after the start of the interval. Otherwise the change reads the server's clock,
//! with one more command, and takes that.
//!
//! ## Why does the copy have the new `_id`?
//!
//! References to the valid document stay right, and an update changes it in place.
//!
//! ## Why can an insert not overlap an interval that it has not read?
//!
//! Another insert of the id must have begun that interval after the snapshot of the transaction. Both wrote the same key of the
//! unique index of valid documents, so the server refuses the later one, which starts again.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, duplicate_key, lost_race};
use mongo_patterns_core::new_document::NewDocument;
use mongo_patterns_core::{Error, ErrorKind, Result, transaction};
use mongodb::ClientSession;
use mongodb::bson::{Bson, DateTime, RawDocumentBuf, doc};
use mongodb::options::ReturnDocument;

use crate::form::{Times, after, ended};
use crate::query::{self, Change};
use crate::read::{find_last, find_valid_now, not_found};
use crate::repository::Shared;
use crate::results::{Begun, Ended};

/// A change that a call asks for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) change: Change,
    /// The start that the valid document must have.
    pub(crate) expected: Option<DateTime>,
}

/// Changes the valid document, and inserts what it was.
pub(crate) async fn change(
    shared: &Shared,
    id: &Bson,
    request: Request,
    session: Option<&mut ClientSession>,
) -> Result<Begun> {
    shared.check_write().await?;
    let mut conn = shared.enter(id, session).await?;
    let (collection, retry) = (&shared.collection, &shared.settings.retry);
    let context = (shared, id, &request);
    let begun = transaction::run(collection, retry, &mut conn, context, |conn, (shared, id, request)| {
        Box::pin(change_in(shared, id, request, conn))
    });
    begun.await
}

async fn change_in(shared: &Shared, id: &Bson, request: &Request, conn: &mut Conn<'_>) -> Result<Begun> {
    let now = DateTime::now();
    if let Some(before) = change_valid(shared, id, request, (now, request.expected, true), conn).await? {
        return insert_copy(shared, before, now, conn).await;
    }
    let (times, now) = find_valid_now(shared, id, conn).await?;
    check_expected(request.expected, times.from)?;
    let from = after(times.from).max(now);
    let before = change_valid(shared, id, request, (from, None, false), conn).await?;
    insert_copy(shared, before.ok_or_else(not_found)?, from, conn).await
}

fn check_expected(expected: Option<DateTime>, from: DateTime) -> Result<()> {
    match expected {
        Some(expected) if expected != from => Err(Error::new(
            ErrorKind::RevisionMismatch,
            "the valid document does not begin at the expected time, nothing was changed: read it again, and decide by its new content",
        )),
        _ => Ok(()),
    }
}

/// Changes the valid document, if it begins before a time, and at the expected one. Returns it as it was. `None` if none matched.
async fn change_valid(
    shared: &Shared,
    id: &Bson,
    request: &Request,
    (from, expected, must_be_now): (DateTime, Option<DateTime>, bool),
    conn: &mut Conn<'_>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let mut filter = query::valid_before(settings, id, from, expected);
    if must_be_now {
        filter.extend(query::is_now(from));
    }
    let update = request.change.update(settings, from);
    let options = query::change(settings, false, ReturnDocument::Before);
    let before = conn
        .find_one_and_update(&shared.collection, filter, update, options)
        .await;
    before.map_err(|error| match is_start_taken(shared, &error) {
        Some(true) => ahead().caused_by(error),
        Some(false) => refused().caused_by(error),
        None => error.into(),
    })
}

/// Inserts the document as it was, until the new start.
async fn insert_copy(shared: &Shared, before: RawDocumentBuf, from: DateTime, conn: &mut Conn<'_>) -> Result<Begun> {
    Times::stored_in(&shared.settings, &before)?;
    let copy = ended(&shared.settings, &before, from)?;
    let inserted = conn.insert_many(&shared.collection, vec![copy], None).await;
    inserted.map_err(|error| match is_start_taken(shared, &error) {
        Some(true) => ahead().caused_by(error),
        Some(false) => Error::new(
            ErrorKind::DuplicateKey,
            "a unique index of the application refused the copy of the document as it was, nothing was changed: restrict the index to valid documents, by a partial filter",
        )
        .caused_by(error),
        None => error.into(),
    })?;
    Ok(Begun { valid_from: from })
}

/// Returns whether the index of the starts refused a write. `None` if no unique index did.
fn is_start_taken(shared: &Shared, error: &CommandError) -> Option<bool> {
    let duplicate = duplicate_key(error)?;
    Some(duplicate.index.as_ref() == Some(&shared.settings.start_index))
}

/// The error of an interval that is stored already.
fn ahead() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "an interval of the id begins when the valid document does, or later, because another program wrote one of the two, nothing was changed: call verify()",
    )
}

/// The error of a unique index of the application.
fn refused() -> Error {
    Error::new(
        ErrorKind::DuplicateKey,
        "the `_id` of the document, or a unique index of the application, refused it, nothing was stored: use other values",
    )
}

/// Inserts a document of an id that has no valid one.
pub(crate) async fn insert(shared: &Shared, new: &NewDocument, session: Option<&mut ClientSession>) -> Result<Begun> {
    shared.check_write().await?;
    let mut conn = shared.enter(&new.id, session).await?;
    let (collection, retry) = (&shared.collection, &shared.settings.retry);
    let begun = transaction::run(collection, retry, &mut conn, (shared, new), |conn, (shared, new)| {
        Box::pin(insert_in(shared, new, conn))
    });
    begun.await
}

async fn insert_in(shared: &Shared, new: &NewDocument, conn: &mut Conn<'_>) -> Result<Begun> {
    let settings = &shared.settings;
    let last = match find_last(shared, &new.id, conn).await? {
        Some(last) if last.is_valid => {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                "a document of the id is valid, it was not changed: replace it, or use another id",
            ));
        }
        last => last.map(|last| last.to.max(after(last.from))),
    };
    let (filter, update) = (query::absent(settings, &new.id), query::insert(settings, new, last));
    let options = query::change(settings, true, ReturnDocument::After);
    let inserted = conn
        .find_one_and_update(&shared.collection, filter, update, options)
        .await;
    let inserted = inserted.map_err(|error| match duplicate_key(&error) {
        // Another client has inserted it.
        Some(duplicate) if settings.is_of_intervals(duplicate.index.as_deref()) => lost_race(error),
        Some(_) => refused().caused_by(error),
        None => error.into(),
    })?;
    let inserted =
        inserted.ok_or_else(|| Error::new(ErrorKind::Driver, "the server returned no document for an insert"))?;
    let valid_from = Times::stored_in(settings, &inserted)?.from;
    Ok(Begun { valid_from })
}

/// Ends the interval of the valid document. By its type, the start of one that another program wrote is not computed with.
pub(crate) async fn end(
    shared: &Shared,
    id: &Bson,
    expected: Option<DateTime>,
    session: Option<&mut ClientSession>,
) -> Result<Ended> {
    shared.check_write().await?;
    let mut conn = shared.enter(id, session).await?;
    let settings = &shared.settings;
    let mut filter = query::valid(settings, id);
    let mut from = doc! { "$type": "date" };
    from.extend(expected.map(|expected| ("$eq".to_owned(), expected.into())));
    filter.insert(settings.from.as_str(), from);
    let options = query::change(settings, false, ReturnDocument::After);
    let ended = conn
        .find_one_and_update(&shared.collection, filter, query::end(settings), options)
        .await;
    if let Some(ended) = ended? {
        let valid_to = Some(Times::stored_in(settings, &ended)?.to);
        return Ok(Ended { found: true, valid_to });
    }
    match find_valid_now(shared, id, &mut conn).await {
        // Otherwise another client has inserted it since.
        Ok((times, _)) => check_expected(expected, times.from)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(Ended {
        found: false,
        valid_to: None,
    })
}
