//! Reads of intervals.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::pages::IdPage;
use mongo_patterns_core::stored::value;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, DateTime, RawDocument, RawDocumentBuf};
use mongodb::options::FindOneOptions;
use serde::de::DeserializeOwned;

use crate::form::{Times, interval};
use crate::query::{self, NOW};
use crate::repository::Shared;
use crate::results::{Interval, IntervalPage};
use crate::token::IntervalToken;

/// Reads the valid document.
pub(crate) async fn find_valid(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Option<RawDocumentBuf>> {
    find_one_valid(shared, id, query::find_valid(&shared.settings), conn).await
}

async fn find_one_valid(
    shared: &Shared,
    id: &Bson,
    options: FindOneOptions,
    conn: &mut Conn<'_>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    Ok(conn
        .find_one(&shared.collection, query::valid(settings, id), options)
        .await?)
}

/// Reads the interval of the valid document, and the time of the server.
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound), and [`NotMigrated`](ErrorKind::NotMigrated).
pub(crate) async fn find_valid_now(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<(Times, DateTime)> {
    let settings = &shared.settings;
    let Some(document) = find_one_valid(shared, id, query::find_valid_now(settings), conn).await? else {
        find_last(shared, id, conn).await?;
        return Err(not_found());
    };
    match value(&document, NOW) {
        Some(Bson::DateTime(now)) => Ok((Times::stored_in(settings, &document)?, now)),
        _ => Err(Error::new(
            ErrorKind::Driver,
            "the server returned no time of its clock",
        )),
    }
}

/// Reads the newest interval.
///
/// # Errors
/// [`NotMigrated`](ErrorKind::NotMigrated).
pub(crate) async fn find_last(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Option<Times>> {
    let settings = &shared.settings;
    let options = query::find_newest(settings, Some(query::head(settings)));
    let Some(newest) = conn
        .find_one(&shared.collection, query::of_id(settings, id), options)
        .await?
    else {
        return Ok(None);
    };
    match value(&newest, &settings.valid) {
        None => Err(Error::new(
            ErrorKind::NotMigrated,
            "the document has no interval, because another program inserted it, nothing was changed: call migrate_existing()",
        )),
        Some(_) => Times::stored_in(settings, &newest).map(Some),
    }
}

/// Reads the document that was valid at a time.
pub(crate) async fn find_as_of(
    shared: &Shared,
    id: &Bson,
    time: DateTime,
    conn: &mut Conn<'_>,
) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let (filter, options) = (query::until(settings, id, time), query::find_newest(settings, None));
    let Some(newest) = conn.find_one(&shared.collection, filter, options).await? else {
        return Ok(None);
    };
    Ok(Times::stored_in(settings, &newest)?.contains(time).then_some(newest))
}

/// Reads a page of the intervals of an id.
pub(crate) async fn page<D: DeserializeOwned>(
    shared: &Shared,
    id: &Bson,
    page: IdPage<IntervalToken>,
    conn: &mut Conn<'_>,
) -> Result<IntervalPage<D>> {
    let settings = &shared.settings;
    let after = page.after.map(|token| DateTime::from_millis(token.position()));
    let filter = query::beyond(settings, id, after, page.newest_first);
    let index = (settings.start_index.as_str(), [&settings.id, &settings.from]);
    let decode = |row: &RawDocument| interval(settings, row);
    let token = |last: &Interval<D>| IntervalToken::after(last.valid_from.timestamp_millis());
    let (intervals, next) = page
        .read(&shared.collection, filter, index, decode, token, conn)
        .await?;
    Ok(IntervalPage { intervals, next })
}

/// Returns the error of a call on an id without a valid document.
pub(crate) fn not_found() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "no document of the id is valid, nothing was changed: insert it first",
    )
}
