//! The end of an interval.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{ErrorKind, Result, transaction};
use mongodb::ClientSession;
use mongodb::bson::{Bson, DateTime};
use mongodb::options::ReturnDocument;

use super::{check_expected, mark};
use crate::form::Times;
use crate::query;
use crate::read::find_current_interval;
use crate::repository::Shared;
use crate::results::Ended;

/// Ends the interval of the current document, if its start is a date.
pub(crate) async fn end(
    shared: &Shared,
    id: &Bson,
    expected: Option<DateTime>,
    session: Option<&mut ClientSession>,
) -> Result<Ended> {
    shared.check_write().await?;
    let mut conn = shared.enter(id, session).await?;
    if let Some(ended) = end_marked(shared, id, (expected, None), &mut conn).await? {
        return Ok(ended);
    }
    let nothing = Ended {
        found: false,
        valid_to: None,
    };
    match find_current_interval(shared, id, &mut conn).await {
        Ok(current) => check_expected(expected, current.times.from)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(nothing),
        Err(error) => return Err(error),
    }
    let (collection, retry) = (&shared.collection, &shared.settings.retry);
    let context = (shared, id, expected);
    let ended = transaction::run(collection, retry, &mut conn, context, |conn, (shared, id, expected)| {
        Box::pin(async move {
            let current = find_current_interval(shared, id, conn).await?;
            check_expected(*expected, current.times.from)?;
            mark(shared, id, &current, conn).await?;
            // At the time of the read, because it can end before the next command, when another one begins.
            let known = (Some(current.times.from), Some(current.now));
            end_marked(shared, id, known, conn).await
        })
    });
    match ended.await {
        Ok(ended) => Ok(ended.unwrap_or(nothing)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(nothing),
        Err(error) => Err(error),
    }
}

/// Ends the interval of the document that is marked as valid, at a time at which it is the current one, or now.
async fn end_marked(
    shared: &Shared,
    id: &Bson,
    (expected, time): (Option<DateTime>, Option<DateTime>),
    conn: &mut Conn<'_>,
) -> Result<Option<Ended>> {
    let settings = &shared.settings;
    let mut filter = query::changeable(settings, id, expected);
    if time.is_none() {
        filter.extend(query::is_current(settings));
    }
    let update = query::end(settings, time.map_or("$$NOW".into(), Bson::from));
    let options = query::change(settings, false, ReturnDocument::After);
    let ended = conn
        .find_one_and_update(&shared.collection, filter, update, options)
        .await?;
    let Some(ended) = ended else { return Ok(None) };
    let valid_to = Some(Times::stored_in(settings, &ended)?.to);
    Ok(Some(Ended { found: true, valid_to }))
}
