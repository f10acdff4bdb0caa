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

use std::sync::Arc;

use mongo_patterns_core::lanes::Joined;
use mongo_patterns_core::size::MAX_BYTES;
use mongodb::ClientSession;
use mongodb::options::ReturnDocument;

use super::form::{Times, after, ended};
use super::query::{self, Change};
use super::read::{find_last, find_valid_now};
use super::repository::Shared;
use super::results::{Begun, Ended};
use crate::form::document::Encoded;
use crate::prelude::*;
use crate::repository::Changes;
use crate::results::not_found;
use crate::write::insert::{already_exists, refused};
use crate::write::joined::{Changeable, is_of_request};

/// A change that a call asks for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) change: Change,
    /// The start that the valid document must have.
    pub(crate) expected: Option<DateTime>,
}

/// A document that was changed.
struct Changed {
    /// The copy of what it was.
    copy: RawDocumentBuf,
    from: DateTime,
}

impl Changeable for Shared {
    type Request = Request;
    type Output = Begun;

    fn parts(&self) -> (&Collection<RawDocumentBuf>, &RetryPolicy, &Arc<Joined<Changes<Self>>>) {
        (&self.collection, &self.settings.retry, &self.changes)
    }

    async fn check(&self) -> Result<()> {
        self.check_write().await
    }

    async fn enter<'s>(&self, id: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Self::enter(self, id, session).await
    }

    async fn change(&self, id: &Bson, request: &Request, conn: &mut Conn<'_>) -> Result<Begun> {
        let Changed { copy, from } = change(self, id, request, None, conn).await?;
        insert_copies(self, vec![copy], conn).await?;
        Ok(Begun { valid_from: from })
    }

    async fn change_all(&self, id: &Bson, requests: &[Request], conn: &mut Conn<'_>) -> Result<Vec<Result<Begun>>> {
        let (mut done, mut copies, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut last = None;
        for request in requests {
            match change(self, id, request, last, conn).await {
                Ok(Changed { copy, from }) => {
                    done.push(Ok(Begun { valid_from: from }));
                    last = Some(from);
                    bytes += copy.as_bytes().len();
                    copies.push(copy);
                }
                Err(error) if is_of_request(&error) => done.push(Err(error)),
                Err(error) => return Err(error),
            }
            if bytes > MAX_BYTES {
                break;
            }
        }
        insert_copies(self, copies, conn).await?;
        Ok(done)
    }
}

/// Changes the valid document. `last` is the start that an earlier change of the transaction has set.
async fn change(
    shared: &Shared,
    id: &Bson,
    request: &Request,
    last: Option<DateTime>,
    conn: &mut Conn<'_>,
) -> Result<Changed> {
    let expected = request.expected;
    let from = match last {
        Some(last) => {
            check_expected(expected, last)?;
            after(last)
        }
        None => {
            let from = DateTime::now();
            if let Some(changed) = send_change(shared, id, request, (from, expected, true), conn).await? {
                return Ok(changed);
            }
            let (times, now) = find_valid_now(shared, id, conn).await?;
            check_expected(expected, times.from)?;
            after(times.from).max(now)
        }
    };
    let changed = send_change(shared, id, request, (from, None, false), conn).await?;
    changed.ok_or_else(not_found)
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

/// Changes the valid document, if it begins before a time, and at the expected one. `None` if none matched.
async fn send_change(
    shared: &Shared,
    id: &Bson,
    request: &Request,
    (from, expected, must_be_now): (DateTime, Option<DateTime>, bool),
    conn: &mut Conn<'_>,
) -> Result<Option<Changed>> {
    let settings = &shared.settings;
    let mut filter = query::valid_before(settings, id, from, expected);
    if must_be_now {
        filter.extend(query::is_now(from));
    }
    let update = request.change.update(settings, from);
    let options = query::change(settings, false, ReturnDocument::Before);
    let changed = conn
        .find_one_and_update(&shared.collection, filter, update, options)
        .await;
    let changed = changed.map_err(|error| match duplicate_key(&error) {
        Some(duplicate) if duplicate.index.as_ref() == Some(&settings.start_index) => ahead().caused_by(error),
        Some(_) => refused().caused_by(error),
        None => hinted(error, &settings.valid_index),
    })?;
    let Some(before) = changed else { return Ok(None) };
    Times::of(settings, &before)?;
    Ok(Some(Changed {
        copy: ended(settings, &before, from)?,
        from,
    }))
}

/// Stores the copies of documents that were changed.
async fn insert_copies(shared: &Shared, copies: Vec<RawDocumentBuf>, conn: &mut Conn<'_>) -> Result<()> {
    if copies.is_empty() {
        return Ok(());
    }
    let inserted = conn.insert_many(&shared.collection, copies, None).await;
    inserted.map(drop).map_err(|error| match duplicate_key(&error) {
        Some(duplicate) if duplicate.index.as_ref() == Some(&shared.settings.start_index) => ahead().caused_by(error),
        Some(_) => Error::new(
            ErrorKind::DuplicateKey,
            "a unique index of the application refused the copy of the document as it was, nothing was changed: restrict the index to valid documents, by a partial filter",
        )
        .caused_by(error),
        None => error.into(),
    })
}

/// The error of an interval that is stored already.
fn ahead() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "an interval of the id begins when the valid document does, or later, because another program wrote one of the two, nothing was changed: call verify()",
    )
}

/// Inserts a document, in a transaction.
pub(crate) async fn insert(shared: &Shared, encoded: &Encoded, conn: &mut Conn<'_>) -> Result<Begun> {
    let settings = &shared.settings;
    let last = match find_last(shared, &encoded.id, conn).await? {
        Some(last) if last.is_valid => return Err(already_exists()),
        last => last.map(|last| last.to.max(after(last.from))),
    };
    let (filter, update) = (
        query::absent(settings, &encoded.id),
        query::insert(settings, encoded, last),
    );
    let options = query::change(settings, true, ReturnDocument::After);
    let inserted = conn
        .find_one_and_update(&shared.collection, filter, update, options)
        .await;
    let inserted = inserted.map_err(|error| match duplicate_key(&error) {
        // Another client has inserted it.
        Some(duplicate) if settings.is_of_intervals(duplicate.index.as_deref()) => lost_race(error),
        Some(_) => refused().caused_by(error),
        None => hinted(error, &settings.valid_index),
    })?;
    let inserted =
        inserted.ok_or_else(|| Error::new(ErrorKind::Driver, "the server returned no document for an insert"))?;
    let valid_from = Times::of(settings, &inserted)?.from;
    Ok(Begun { valid_from })
}

/// Ends the interval of the valid document. By its type, the start of one that another program wrote is not computed with.
pub(crate) async fn end(shared: &Shared, id: &Bson, expected: Option<DateTime>, conn: &mut Conn<'_>) -> Result<Ended> {
    let settings = &shared.settings;
    let mut filter = query::valid(settings, id);
    let mut from = doc! { "$type": "date" };
    from.extend(expected.map(|expected| ("$eq".to_owned(), expected.into())));
    filter.insert(settings.from.as_str(), from);
    let options = query::change(settings, false, ReturnDocument::After);
    let ended = conn
        .find_one_and_update(&shared.collection, filter, query::end(settings), options)
        .await;
    if let Some(ended) = ended.map_err(|error| hinted(error, &settings.valid_index))? {
        let valid_to = Some(Times::of(settings, &ended)?.to);
        return Ok(Ended { found: true, valid_to });
    }
    match find_valid_now(shared, id, conn).await {
        Ok((times, _)) => {
            check_expected(expected, times.from)?;
            // Another client has inserted it since.
            Ok(Ended {
                found: false,
                valid_to: None,
            })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Ended {
            found: false,
            valid_to: None,
        }),
        Err(error) => Err(error),
    }
}
