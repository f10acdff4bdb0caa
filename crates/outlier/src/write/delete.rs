//! Deletes a list: a typical document by one command, and an outlier in a transaction.
//!
//! # Design
//!
//! ## Why is an outlier deleted in a transaction?
//!
//! A push to a known outlier writes only an overflow document. Without a transaction, overflow documents could be left, and
//! the push would store its element where no reader looks.
//!
//! ## Why are the overflow documents deleted first?
//!
//! Pushes to an outlier write the newest one. A delete that wrote the main document first would conflict with each push in
//! between, and run again.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::through::{self, Through};
use mongo_patterns_core::{Deleted, Result, transaction};
use mongodb::bson::Bson;
use mongodb::options::FindOneAndDeleteOptions;

use crate::form::document::is_flagged;
use crate::query;
use crate::repository::Shared;

/// Deletes the main document and its overflow documents, the main document through other repositories if there are any.
pub(crate) async fn delete(shared: &Shared, id: &Bson, through: &Through<'_>, conn: &mut Conn<'_>) -> Result<Deleted> {
    let is_alone = through.is_empty();
    if conn.is_in_transaction() && is_alone {
        let (found, overflow) = delete_in_callers_transaction(shared, id, conn).await?;
        return Ok(Deleted::new(u64::from(found) + overflow));
    }
    let is_known = shared.forget_outlier(id);
    if is_alone && !is_known && delete_typical(shared, id, conn).await? {
        return Ok(Deleted::new(1));
    }
    let deleted = transaction::run(
        &shared.main,
        &shared.settings.retry,
        conn,
        (shared, id, through),
        |conn, (shared, id, through)| Box::pin(delete_through(shared, id, through, conn)),
    );
    let (found, overflow) = deleted.await?;
    Ok(Deleted::new(u64::from(found) + overflow))
}

/// Deletes the main document if it has no flag, and thus no overflow documents. Returns whether it did.
async fn delete_typical(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<bool> {
    let Shared { main, settings, .. } = shared;
    let options = FindOneAndDeleteOptions::builder().projection(query::id_only()).build();
    let typical = query::without_flag(settings, id);
    let deleted = conn.find_one_and_delete(main, typical, options).await?;
    Ok(deleted.is_some())
}

/// Deletes the overflow documents first, and the main document through other repositories if there are any. Returns whether
/// it was found, and the number of overflow documents.
pub(crate) async fn delete_through(
    shared: &Shared,
    id: &Bson,
    through: &Through<'_>,
    conn: &mut Conn<'_>,
) -> Result<(bool, u64)> {
    let (main, overflow, settings) = shared.parts();
    let overflow_of = query::true_overflow_of(settings, id);
    let of_overflow = conn.delete_many(overflow, overflow_of, None).await?;
    let of_main = query::by_id(id);
    let found = match through {
        [] => conn.delete_one(main, of_main, None).await?.deleted_count > 0,
        _ => {
            let emptied = conn.update_one(main, of_main, query::empty(settings), None).await?;
            let found = emptied.matched_count > 0;
            match found {
                true => through::delete_found(through, id, conn).await?,
                false => through::delete_left(through, id, conn).await?,
            }
            found
        }
    };
    Ok((found, of_overflow.deleted_count))
}

/// Deletes the main document first, whose flag shows whether there are overflow documents. Returns whether it was found, and
/// the number of overflow documents.
pub(crate) async fn delete_in_callers_transaction(
    shared: &Shared,
    id: &Bson,
    conn: &mut Conn<'_>,
) -> Result<(bool, u64)> {
    let (main, overflow, settings) = shared.parts();
    let options = FindOneAndDeleteOptions::builder()
        .projection(query::flag(settings))
        .build();
    let main = conn.find_one_and_delete(main, query::by_id(id), options).await?;
    let found = main.is_some();
    if main.is_some_and(|main| !is_flagged(settings, &main)) {
        return Ok((found, 0));
    }
    let overflow_of = query::true_overflow_of(settings, id);
    let deleted = conn.delete_many(overflow, overflow_of, None).await?;
    Ok((found, deleted.deleted_count))
}
