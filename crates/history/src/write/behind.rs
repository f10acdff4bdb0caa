//! A current document that is behind its revisions, because another program restored it with an older number.
//!
//! # Design
//!
//! ## Why does it get the next number in a transaction of its own?
//!
//! A call that expects a revision is refused, because the document was deleted or replaced since that revision. It must
//! still be numbered, or the call would be refused for ever.
//!
//! ## Why does a call in a transaction of the caller send one more command?
//!
//! The refused copy has ended the transaction. The server reports that to the next command as a transient error, by which
//! the driver runs the callback again.

use futures::future::BoxFuture;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::{Result, RetryPolicy, transaction};
use mongodb::bson::Bson;
use mongodb::bson::oid::ObjectId;

use super::change::with_head;
use super::record::{Behind, insert_new};
use crate::form::document::{Head, copy};
use crate::query;
use crate::query::options;
use crate::read::{find_current, find_newest};
use crate::repository::Shared;

/// The body of the transaction of a write.
type Body<C, T> = for<'b, 's> fn(&'b mut Conn<'s>, &'b mut C, &'b mut Behind) -> BoxFuture<'b, Result<T>>;

/// Runs a write of a document, as [`transaction::run`] does. If the document is behind its revisions, it is numbered first,
/// within the time of the retry policy.
pub(super) async fn run<C: Send, T: Send>(
    shared: &Shared,
    id: &Bson,
    conn: &mut Conn<'_>,
    mut context: C,
    body: Body<C, T>,
) -> Result<T> {
    let mut attempts = shared.settings.retry.start();
    loop {
        let (mut behind, rest) = (Behind::default(), attempts.rest());
        let context = (&mut context, body, &mut behind);
        let done = transaction::run(
            &shared.current,
            &rest,
            conn,
            context,
            |conn, (context, body, behind)| {
                behind.refused = None;
                body(conn, context, behind)
            },
        );
        let error = match done.await {
            Err(error) => error,
            done => return done,
        };
        let Some(refused) = behind.refused else {
            return Err(error);
        };
        if conn.is_in_transaction() {
            number(shared, id, &attempts.rest(), &mut Conn::new()).await?;
            find_current(shared, id, conn).await?;
            return Err(error);
        }
        number(shared, id, &attempts.rest(), conn).await?;
        attempts.next(refused).await?;
    }
}

/// Stores a current document that is behind its newest revision as the revision after it.
pub(crate) async fn number(shared: &Shared, id: &Bson, retry: &RetryPolicy, conn: &mut Conn<'_>) -> Result<()> {
    transaction::run(&shared.current, retry, conn, (shared, id), |conn, (shared, id)| {
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
