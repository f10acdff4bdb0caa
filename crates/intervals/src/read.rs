//! Reads of intervals.

use std::marker::PhantomData;

use futures::future::BoxFuture;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::list::{Asked, ByNumber, Page, PageSource};
use mongo_patterns_core::stored::{id_of, value};
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result};
use mongodb::bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::form::{Times, interval};
use crate::query::{self, NOW};
use crate::repository::Shared;
use crate::results::Interval;
use crate::token::IntervalToken;

pub(crate) async fn find_current(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Option<RawDocumentBuf>> {
    let settings = &shared.settings;
    let (stages, options) = (query::current(settings, id), query::by_start(settings));
    let found = conn.aggregate_all(&shared.collection, stages, options).await?;
    Ok(found.into_iter().next())
}

/// The interval of a stored document, and the time of the server when it was read.
pub(crate) struct Known {
    pub(crate) document_id: Bson,
    pub(crate) times: Times,
    pub(crate) now: DateTime,
}

/// Reads the newest interval that a filter matches.
async fn find_newest(shared: &Shared, filter: Document, conn: &mut Conn<'_>) -> Result<Option<Known>> {
    let settings = &shared.settings;
    let options = query::find_newest(settings, Some(query::head_now(settings)));
    let Some(newest) = conn.find_one(&shared.collection, filter, options).await? else {
        return Ok(None);
    };
    if value(&newest, &settings.valid).is_none() {
        return Err(Error::new(
            ErrorKind::NotMigrated,
            "the document has no interval, because another program inserted it, nothing was changed: call migrate_existing()",
        ));
    }
    let Some(Bson::DateTime(now)) = value(&newest, NOW) else {
        return Err(Error::new(
            ErrorKind::Driver,
            "the server returned no time of its clock",
        ));
    };
    let (document_id, times) = (id_of(&newest), Times::stored_in(settings, &newest)?);
    Ok(Some(Known {
        document_id,
        times,
        now,
    }))
}

/// Reads the interval of the current document, if there is one. Another document can have the mark.
pub(crate) async fn find_begun(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Option<Known>> {
    let found = find_newest(shared, query::begun(&shared.settings, id), conn).await?;
    Ok(found.filter(|known| known.times.is_current(known.now)))
}

/// Reads the interval of the current document.
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound), and [`NotMigrated`](ErrorKind::NotMigrated).
pub(crate) async fn find_current_interval(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Known> {
    match find_begun(shared, id, conn).await? {
        Some(known) => Ok(known),
        None => Err(absent(shared, id, conn).await),
    }
}

/// Reads the interval that contains a time.
///
/// # Errors
/// As [`find_current_interval`].
pub(crate) async fn find_interval_at(shared: &Shared, id: &Bson, time: DateTime, conn: &mut Conn<'_>) -> Result<Known> {
    let found = find_newest(shared, query::until(&shared.settings, id, time), conn).await?;
    match found.filter(|known| known.times.contains(time)) {
        Some(known) => Ok(known),
        None => Err(absent(shared, id, conn).await),
    }
}

/// Returns the error of a call on an id without the interval that it needs.
async fn absent(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Error {
    let not_found = "no document of the id is valid at this time, nothing was changed: insert it first";
    let last = find_last(shared, id, conn).await;
    last.err().unwrap_or_else(|| Error::new(ErrorKind::NotFound, not_found))
}

/// Reads the newest interval.
pub(crate) async fn find_last(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<Option<Known>> {
    find_newest(shared, query::of_id(&shared.settings, id), conn).await
}

/// Reads the intervals before and after a time: the newest that begins up to it, and the first that begins later.
pub(crate) async fn find_adjacent(
    shared: &Shared,
    id: &Bson,
    time: DateTime,
    conn: &mut Conn<'_>,
) -> Result<(Option<Times>, Option<Times>)> {
    let settings = &shared.settings;
    let before = find_newest(shared, query::until(settings, id, time), conn).await?;
    let (later, options) = (
        query::beyond(settings, id, Some(time), false),
        query::find_oldest(settings),
    );
    let after = conn.find_one(&shared.collection, later, options).await?;
    let after = after.map(|after| Times::stored_in(settings, &after)).transpose()?;
    Ok((before.map(|before| before.times), after))
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

/// The intervals of an id.
pub(crate) struct Intervals<'a, D> {
    pub(crate) shared: &'a Shared,
    pub(crate) id: DocumentId,
    pub(crate) types: PhantomData<fn() -> D>,
}

impl<D: DeserializeOwned> PageSource<Interval<D>, IntervalToken> for Intervals<'_, D> {
    fn read<'c>(
        &'c self,
        page: Asked<IntervalToken>,
        conn: &'c mut Conn<'_>,
    ) -> BoxFuture<'c, Result<Page<Interval<D>, IntervalToken>>> {
        let settings = &self.shared.settings;
        let position = page
            .start
            .position()
            .map(|token| DateTime::from_millis(token.position()));
        let filter = query::beyond(settings, self.id.value(), position, page.descends());
        let intervals = ByNumber {
            collection: &self.shared.collection,
            index: settings.start_index.as_str(),
            fields: [&settings.id, &settings.from],
            edges: IntervalToken::EDGES,
        };
        let decode = |row: &RawDocument| interval(settings, row);
        let token = |of: &Interval<D>| IntervalToken::after(of.valid_from.timestamp_millis());
        Box::pin(intervals.read(page, filter, decode, token, conn))
    }
}
