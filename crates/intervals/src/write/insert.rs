//! The insert of a document.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::new_document::NewDocument;
use mongo_patterns_core::{Error, ErrorKind, Result, transaction};
use mongodb::ClientSession;
use mongodb::bson::DateTime;
use mongodb::options::ReturnDocument;

use super::{check_start, not_written};
use crate::form::{END, Times, latest};
use crate::query;
use crate::read::{find_adjacent, find_begun, find_last};
use crate::repository::Shared;
use crate::results::Begun;

/// Inserts a document if no document of its id is valid at this time: now, or a chosen start.
pub(crate) async fn insert(
    shared: &Shared,
    new: &NewDocument,
    from: Option<DateTime>,
    session: Option<&mut ClientSession>,
) -> Result<Begun> {
    check_start(from)?;
    shared.check_write().await?;
    let mut conn = shared.enter(&new.id, session).await?;
    let (collection, retry) = (&shared.collection, &shared.settings.retry);
    let context = (shared, new, from);
    let begun = transaction::run(collection, retry, &mut conn, context, |conn, (shared, new, from)| {
        Box::pin(insert_in(shared, new, *from, conn))
    });
    begun.await
}

async fn insert_in(shared: &Shared, new: &NewDocument, from: Option<DateTime>, conn: &mut Conn<'_>) -> Result<Begun> {
    let settings = &shared.settings;
    let last = find_last(shared, &new.id, conn).await?;
    let (start, end, kept) = match (&last, from) {
        (None, None) => return insert_first(shared, new, conn).await,
        (None, Some(from)) => (from, END, None),
        (Some(last), from) => {
            let Times { to, is_valid, .. } = last.times;
            let start = match from {
                Some(from) => from,
                // It was ended by a clock that was ahead.
                None if !is_valid && to > last.now && to <= latest(last.now) => to,
                None => last.now,
            };
            let (before, next) = match last.times.from <= start {
                true => (Some(last.times), None),
                false => find_adjacent(shared, &new.id, start, conn).await?,
            };
            let is_current_ahead = |next: Times| from.is_none() && next.is_current(last.now);
            if before.is_some_and(|before| before.contains(start)) || next.is_some_and(is_current_ahead) {
                return Err(Error::new(
                    ErrorKind::AlreadyExists,
                    "a document of the id is valid at this time, it was not changed: replace it, or use another id or another start",
                ));
            }
            let current = match from {
                Some(_) => find_begun(shared, &new.id, conn).await?,
                None => None,
            };
            let kept = current.map(|current| current.document_id);
            (start, next.map_or(END, |next| next.from), kept)
        }
    };
    let statements = match from {
        Some(_) => query::insert_between(settings, new, (start, end), kept.as_ref()),
        None => query::insert_current(settings, new, start, end),
    };
    let inserted = conn.update_in_order(&shared.collection, statements).await;
    inserted.map_err(|error| not_written(shared, error))?;
    Ok(Begun { valid_from: start })
}

/// Inserts the first document of an id, from now.
async fn insert_first(shared: &Shared, new: &NewDocument, conn: &mut Conn<'_>) -> Result<Begun> {
    let settings = &shared.settings;
    let (filter, update) = (
        query::absent(settings, &new.id),
        query::insert(settings, new, "$$NOW", END),
    );
    let options = query::change(settings, true, ReturnDocument::After);
    let inserted = conn
        .find_one_and_update(&shared.collection, filter, update, options)
        .await;
    let inserted = inserted.map_err(|error| not_written(shared, error))?;
    let inserted =
        inserted.ok_or_else(|| Error::new(ErrorKind::Driver, "the server returned no document for an insert"))?;
    let valid_from = Times::stored_in(settings, &inserted)?.from;
    Ok(Begun { valid_from })
}
