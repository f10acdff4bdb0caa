//! Transactions that a call runs itself.
//!
//! # Design
//!
//! ## Why not the driver's convenient API?
//!
//! It retries for two minutes whatever the retry policy is, and it retries an unconfirmed commit without a backoff.

pub mod rewrite;

use futures::future::BoxFuture;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::error::{
    Error as DriverError, ErrorKind as DriverKind, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT,
};
use mongodb::options::{ReadConcern, TransactionOptions};
use mongodb::{ClientSession, Collection};

use crate::conn::Conn;
use crate::error::{self, Error, ErrorKind, Result};
use crate::measure;
use crate::retry::{Attempts, RetryPolicy};
use crate::send::Step;
use crate::send::primary;
use crate::topology::STANDALONE;

const MAX_TIME_EXPIRED: i32 = 50;
/// A lock timeout, a write conflict, a snapshot that is too old, or a transaction that the server has aborted. On a sharded
/// cluster also a chunk that moves, an outdated routing table, and another transaction in its commit.
const LOST: [i32; 11] = [24, 112, 239, 246, 249, 251, 267, 272, 304, 343, 13388];

/// The body of a transaction. It can run several times. The context is what it borrows besides the session.
pub type Body<C, T> = for<'b, 's> fn(&'b mut Conn<'s>, &'b mut C) -> BoxFuture<'b, Result<T>>;

/// Runs a body in a transaction with the collection's write concern and a snapshot of the primary. Retries it after a
/// conflict with another writer or a network error.
///
/// The call [enters](Conn::enter) its lanes before. In a transaction of the caller, the body runs once in that transaction.
/// A caller's session without a transaction only passes on its causal consistency.
///
/// # Errors
/// When the retry policy is exhausted, [`Contention`](ErrorKind::Contention), or the network error.
/// [`ServerSelection`](ErrorKind::ServerSelection) at once, because the client has waited for its timeout already. Nothing
/// is changed, except after an error of the commit, whose [outcome is unknown](Error::is_outcome_unknown).
///
/// # Cancel safety
/// The transaction is aborted, or committed if its commit was sent. The call keeps its lanes until then. See
/// [`conn`](crate::conn).
pub async fn run<C: Send, T: Send>(
    collection: &Collection<RawDocumentBuf>,
    retry: &RetryPolicy,
    conn: &mut Conn<'_>,
    mut context: C,
    body: Body<C, T>,
) -> Result<T> {
    if conn.is_in_transaction() {
        return body(conn, &mut context).await;
    }
    let mut own = start(collection, conn).await?;
    let done = run_own(collection, retry, &mut own, context, body).await;
    if let (Some(callers), Some(own)) = (conn.driver(), own.driver()) {
        advance(callers, own);
    }
    done
}

/// Starts the session of a transaction, in the lanes of the call.
fn start<'a>(
    collection: &'a Collection<RawDocumentBuf>,
    callers: &'a mut Conn<'_>,
) -> BoxFuture<'a, Result<Conn<'static>>> {
    Box::pin(async move {
        if callers.is_snapshot() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the session is a snapshot session, which cannot write, or a call in it was dropped before its reply, nothing was changed: start another session",
            ));
        }
        let mut own = collection.client().start_session().await?;
        if let Some(callers) = callers.driver() {
            advance(&mut own, callers);
        }
        Ok(Conn::own(own, callers.lane()))
    })
}

/// Makes a session causally consistent with the reads and writes of the other session.
fn advance(session: &mut ClientSession, other: &ClientSession) {
    if let Some(time) = other.cluster_time() {
        session.advance_cluster_time(time);
    }
    if let Some(time) = other.operation_time() {
        session.advance_operation_time(time);
    }
}

/// Runs the attempts. All that does not need the types of the body is in functions that are compiled once.
async fn run_own<C: Send, T: Send>(
    collection: &Collection<RawDocumentBuf>,
    retry: &RetryPolicy,
    conn: &mut Conn<'_>,
    mut context: C,
    body: Body<C, T>,
) -> Result<T> {
    let mut attempts = retry.start();
    loop {
        begin(collection, conn).await?;
        let error = match body(conn, &mut context).await {
            Ok(value) => match end(conn, &mut attempts).await? {
                None => return Ok(value),
                Some(error) => error,
            },
            Err(error) => {
                abort(conn).await;
                error
            }
        };
        again(error, &mut attempts).await?;
    }
}

fn begin<'a>(collection: &'a Collection<RawDocumentBuf>, conn: &'a mut Conn<'_>) -> BoxFuture<'a, Result<()>> {
    let options = TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .selection_criteria(primary())
        .write_concern(collection.write_concern().cloned())
        .build();
    Box::pin(async move { conn.begin(options).await.map_err(failed) })
}

/// Commits. Returns the error of the commit, if it has one.
fn end<'a>(conn: &'a mut Conn<'_>, attempts: &'a mut Attempts) -> BoxFuture<'a, Result<Option<Error>>> {
    Box::pin(async move {
        let of_commit = attempts.clone();
        let commit = conn.end(move |session| Box::pin(async move { Ok(commit(session, of_commit).await) }));
        let (returned, committed) = commit.await?;
        *attempts = returned;
        Ok(committed.err())
    })
}

fn abort<'a>(conn: &'a mut Conn<'_>) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        // The driver ignores an error of the abort, because the server ends the transaction anyway.
        let _ = conn
            .end(|session| Box::pin(session.abort_transaction().into_future()))
            .await;
    })
}

/// Waits before the next attempt.
fn again(error: Error, attempts: &mut Attempts) -> BoxFuture<'_, Result<()>> {
    Box::pin(async move {
        if !may_run_again(&error) {
            return Err(of_standalone(error));
        }
        if conflict(&error).is_some() {
            measure::conflict();
        }
        match attempts.wait().await {
            true => Ok(()),
            false => Err(attempts.tried(exhausted(error))),
        }
    })
}

/// Converts the error of a standalone, which the first command of a transaction reports.
fn of_standalone(error: Error) -> Error {
    match error.as_driver_error() {
        Some(cause) if error::is_transaction_unsupported(cause) => failed(cause.clone()),
        _ => error,
    }
}

/// Returns whether nothing was committed and a retry can succeed.
fn may_run_again(error: &Error) -> bool {
    let Some(cause) = error.as_driver_error() else {
        return false;
    };
    let may_be_committed = cause.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT);
    // For the driver a duplicate key is final. If it is that of another writer's new document, which the body knows, the
    // next transaction sees that document.
    let may_pass = cause.contains_label(TRANSIENT_TRANSACTION_ERROR) || is_lost_race(error);
    may_pass && !may_be_committed && !is_away(cause)
}

/// Returns whether the body reports a conflict with another writer, for which it has made no further attempts.
fn is_lost_race(error: &Error) -> bool {
    error.is_contention() && error.attempts().is_none()
}

/// Returns whether server selection timed out.
fn is_away(error: &DriverError) -> bool {
    matches!(*error.kind, DriverKind::ServerSelection { .. })
}

/// Commits. Retries while the outcome is unknown and the policy allows.
async fn commit(session: &mut ClientSession, mut attempts: Attempts) -> (Attempts, Result<()>) {
    loop {
        let Err(error) = session.commit_transaction().await else {
            return (attempts, Ok(()));
        };
        if !error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) {
            return (attempts, Err(failed(error)));
        }
        if is_away(&error) || error::code(&error) == Some(MAX_TIME_EXPIRED) || !attempts.wait().await {
            let unknown = attempts.tried(Error::from_driver(
                ErrorKind::Network,
                "the commit of the transaction was not confirmed: it may or may not have taken effect",
                error,
            ));
            return (attempts, Err(unknown));
        }
    }
}

/// Returns the driver's error if it is a conflict with another writer.
fn conflict(error: &Error) -> Option<&DriverError> {
    let is_lost =
        |cause: &&DriverError| is_lost_race(error) || error::code(cause).is_some_and(|code| LOST.contains(&code));
    error.as_driver_error().filter(is_lost)
}

/// Returns the error of an exhausted policy: [`Contention`](ErrorKind::Contention) if another writer conflicted.
fn exhausted(last: Error) -> Error {
    let Some(cause) = conflict(&last) else {
        return last;
    };
    let text = "conflicts with concurrent writers exhausted the retry policy, nothing was changed: retry later, or use fewer concurrent writers";
    Error::from_driver(ErrorKind::Contention, text, cause.clone())
}

/// A field that a document has only within a transaction.
const HELD: &str = "mongo_patterns_held";

/// Locks documents at the start of a transaction, by writes that change nothing: other writers wait for its end. Otherwise a
/// transaction that reads first and then writes conflicts with every write in between, and a decision by an unchanged
/// document may be wrong at the commit.
pub async fn lock_documents(
    conn: &mut Conn<'_>,
    collection: &Collection<RawDocumentBuf>,
    filter: &Document,
) -> Result<()> {
    // Writing the stored values again would not count as a write.
    for change in [doc! { "$set": { HELD: true } }, doc! { "$unset": { HELD: true } }] {
        let purpose = "lock documents in the transaction";
        let lock = Step::update_many(purpose, collection, filter.clone(), change);
        conn.write(lock).await?;
    }
    Ok(())
}

/// Sets in an error how many items of a batch are stored: none in a transaction of the caller.
pub fn with_stored(error: Error, items: usize, conn: &Conn<'_>) -> Error {
    match conn.is_in_transaction() {
        true => error,
        false => error.with_stored(items as u64),
    }
}

fn failed(error: DriverError) -> Error {
    if error::is_transaction_unsupported(&error) {
        return Error::from_driver(ErrorKind::Unsupported, STANDALONE, error);
    }
    error.into()
}
