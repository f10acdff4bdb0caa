//! Removes an element from a list.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::{Result, transaction};
use mongodb::bson::Bson;
use mongodb::options::FindOneAndUpdateOptions;

use crate::form::document::is_true;
use crate::query;
use crate::read::contains;
use crate::repository::Shared;
use crate::results::not_found;
use crate::write::retried::{projected, unknown_outcome};

/// Removes the element from the main document and the overflow documents. Returns whether the list had it.
pub(crate) async fn remove(shared: &Shared, id: &Bson, element: &Bson, conn: &mut Conn<'_>) -> Result<bool> {
    let Shared { overflow, settings, .. } = shared;
    let mut attempts = settings.retry.start();
    loop {
        let main = remove_from_main(shared, id, element, conn).await?;
        if !main.is_flagged {
            return Ok(main.removed);
        }
        let filter = query::overflow_with(settings, id, element);
        let update = query::remove_from_overflow(settings, element).to_vec();
        let updated = conn.update_many(overflow, filter, update, None).await?;
        let modified = updated.modified_count > 0;
        if main.removed || modified {
            return Ok(true);
        }
        if conn.has_session() || !is_in_snapshot(shared, id, element, conn).await? {
            return Ok(false);
        }
        let cause = CommandError::custom("a refresh moved the element each time");
        attempts.next(cause).await?;
    }
}

/// Returns whether a snapshot has the element. A refresh may have moved it between two reads of the call.
async fn is_in_snapshot(shared: &Shared, id: &Bson, element: &Bson, conn: &mut Conn<'_>) -> Result<bool> {
    let is_present = transaction::run(
        &shared.main,
        &shared.settings.retry,
        conn,
        (shared, id, element),
        |conn, (shared, id, element)| Box::pin(contains(shared, id, element, conn)),
    );
    is_present.await
}

/// The main document before the update.
struct Before {
    is_flagged: bool,
    removed: bool,
}

async fn remove_from_main(shared: &Shared, id: &Bson, element: &Bson, conn: &mut Conn<'_>) -> Result<Before> {
    let Shared { main, settings, .. } = shared;
    let projection = query::has_element(settings, element);
    let (filter, update) = (query::by_id(id), query::remove(settings, element).to_vec());
    let options = FindOneAndUpdateOptions::builder()
        .projection(projection.clone())
        .build();
    let reply = conn.find_one_and_update(main, filter, update, options).await?;
    let reply = reply.ok_or_else(not_found)?;
    let before = projected(main, query::by_id(id), projection, "_id", reply).await;
    let before = before.map_err(unknown_outcome)?.ok_or_else(not_found)?;
    Ok(Before {
        is_flagged: is_true(&before, "flagged"),
        removed: is_true(&before, "has"),
    })
}
