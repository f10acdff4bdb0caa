//! A current document that is behind its revisions, because another program restored it with an older number.
//!
//! # Design
//!
//! ## Why does it get the next number in a transaction of its own?
//!
//! A call that expects a revision is refused, because the document was deleted or replaced since that revision. It must still
//! be numbered, or the call would be refused for ever. The transaction stores what it finds as a revision, as a follower does.
//!
//! ## Why does a call in a transaction of the caller send one more command?
//!
//! The refused copy has ended the transaction. The server reports that to the next command as a transient error, by which the
//! driver runs the callback again.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::transaction::{self, Body};
use mongo_patterns_core::{ErrorKind, Result};
use mongodb::bson::Bson;
use mongodb::bson::oid::ObjectId;

use super::change::with_head;
use super::record::insert_new;
use crate::form::document::{Head, copy};
use crate::query;
use crate::query::options;
use crate::read::{find_current, find_newest};
use crate::repository::Shared;

/// Runs a write of a document, as [`transaction::run`] does. If the document is behind its revisions, it is numbered first.
pub(super) async fn run<C: Send, T: Send>(
    shared: &Shared,
    id: &Bson,
    conn: &mut Conn<'_>,
    mut context: C,
    body: Body<C, T>,
) -> Result<T> {
    let (current, retry) = (&shared.current, &shared.settings.retry);
    let mut attempts = retry.start();
    loop {
        let done = transaction::run(current, retry, conn, (&mut context, body), |conn, (context, body)| {
            body(conn, context)
        });
        let error = match done.await {
            Err(error) if error.kind() == ErrorKind::Corrupt => error,
            done => return done,
        };
        // Other errors of this kind have no cause.
        let Some(cause) = error.as_driver_error().cloned() else {
            return Err(error);
        };
        if conn.is_in_transaction() {
            number(shared, id, &mut Conn::new()).await?;
            find_current(shared, id, conn).await?;
            return Err(error);
        }
        number(shared, id, conn).await?;
        attempts.next(CommandError::from(cause)).await?;
    }
}

/// Stores a current document that is behind its newest revision as the revision after it.
pub(crate) async fn number(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<()> {
    let (current, retry) = (&shared.current, &shared.settings.retry);
    transaction::run(current, retry, conn, (shared, id), |conn, (shared, id)| {
        Box::pin(number_once(shared, id, conn))
    })
    .await
}

async fn number_once(shared: &Shared, id: &Bson, conn: &mut Conn<'_>) -> Result<()> {
    let newest = find_newest(shared, id, conn).await?;
    let current = find_current(shared, id, conn).await?;
    let (Some(newest), Some(current)) = (newest, current) else {
        return Ok(());
    };
    let newest = with_head(&shared.settings, newest)?.head;
    match Head::read(&shared.settings, &current) {
        Some(head) if head.revision < newest.revision => store_next(shared, id, Some(newest), conn).await.map(drop),
        _ => Ok(()),
    }
}

/// Stores the current document as the revision after the newest one. Returns whether there is one.
pub(crate) async fn store_next(shared: &Shared, id: &Bson, newest: Option<Head>, conn: &mut Conn<'_>) -> Result<bool> {
    let settings = &shared.settings;
    let update = query::change::number_after(settings, newest);
    let (filter, options) = (query::current(settings, id), options::change(settings, false));
    let numbered = conn
        .find_one_and_update(&shared.current, filter, update, options)
        .await?;
    let Some(numbered) = numbered else {
        return Ok(false);
    };
    insert_new(shared, copy(settings, &numbered, ObjectId::new())?, conn).await?;
    Ok(true)
}
