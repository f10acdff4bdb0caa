//! Actions: what the methods of a repository return.
//!
//! Every method of a repository returns an action: a `#[must_use]` struct with setters for its options. It borrows the
//! repository and, if the caller sets one, the session. Awaiting it turns it into an [`ActionFuture`], which runs in a
//! `tracing` span.
//!
//! The type of an action is no part of the stable API: a call without options returns a [`Write`] or a [`Read`], and a type
//! of its own when it gets an option. So await the action, or keep it as a future or a stream. Its result and its setters
//! are stable:
//!
//! ```no_run
//! use std::future::IntoFuture;
//! use mongo_patterns::action::ActionFuture;
//! use mongo_patterns::{Deleted, bucket::BucketRepository};
//!
//! fn forget(trades: &BucketRepository<u32, i32>) -> ActionFuture<'_, Deleted> {
//!     trades.delete_key(&123).into_future()
//! }
//! ```
//!
//! # Spans
//!
//! A span has the name `mongo_patterns` and the level debug. Its fields follow the OpenTelemetry conventions for clients of
//! databases. They never contain keys, ids or items.
//!
//! | field | value |
//! |---|---|
//! | `otel.name` | the method and the collection, such as `append trades`: the name of the exported span |
//! | `otel.kind` | `client` |
//! | `otel.status_code` | `ERROR` after an error |
//! | `db.system.name` | `mongodb` |
//! | `db.namespace` | the name of the database |
//! | `db.collection.name` | the name of the collection |
//! | `db.operation.name` | the method, such as `append` |
//! | `db.response.status_code` | the server's error code, if an error has one |
//! | `error.type` | the [code](crate::ErrorKind::code) of an error's kind |
//! | `mongo_patterns.pattern` | the pattern, such as `bucket` |
//! | `mongo_patterns.attempts` | the number of attempts, for most writes that retry after conflicts |
//!
//! # Sessions and transactions
//!
//! Most actions have a setter `session`. With it, all commands of the action run in the caller's session, and in its
//! transaction if one has started. Then nothing takes effect before the caller commits, and the action does not retry: it
//! returns the error with the driver's labels, so that the driver's `and_run2` retries the whole transaction. The server
//! aborts a transaction after an error of a write, such as a duplicate key.
//!
//! The closure of `and_run2` must own what it uses (`async move`, of clones), so that its future is `Send` and can be spawned. A
//! closure that borrows does not compile there: "implementation of `Send` is not general enough".
//!
//! # Lanes
//!
//! Each document that a repository writes has a lane: a queue of its calls, with one write in flight. Clones of a repository
//! share its lanes. Separately built repositories and other processes do not: their calls wait on the server. Lanes only save
//! waiting, and no guarantee depends on them. In a transaction of the caller, a call takes no lane.
//!
//! # Operators
//!
//! Calls that update a document, or a part of it, take `$set`, `$unset`, `$inc`, `$mul`, `$min`, `$max`, `$currentDate`, `$push`,
//! `$pull` and `$addToSet`, with MongoDB's meanings. The server applies them in one atomic command: concurrent increments all
//! count. As in the driver, a document with `$each` in a `$push` or `$addToSet` is a modifier, and the value of a `$pull` is a
//! condition.
//!
//! Refused, with nothing sent: a document without operators, other operators, positional operators in paths (`$`, `$[]`,
//! `$[x]`), and two paths if one contains the other.
//!
//! An update with `$inc`, `$mul`, `$push` or `$currentDate` is not idempotent.
//!
//! # Time limits
//!
//! Reads have a setter `max_time`, and a builder has one for all reads of its repository. The server ends a command that
//! takes longer (`maxTimeMS`), also if its caller has given up. The error has the kind [`Driver`](crate::ErrorKind::Driver)
//! and the server's code 50. A limit is at least one millisecond, and at most `i32::MAX`.
//!
//! A write has no such limit: if the server ended it, its outcome would be unknown. Bound it by a timeout of its future.
//!
//! # Cancel safety
//!
//! The future of every call can be dropped at any point: by a timeout, by `select!`, or when an HTTP client disconnects.
//! A call that writes documents what it may have done then. In general:
//!
//! - A **read** changes nothing.
//! - A **stream** loses no item when the future of an item is dropped: it can be polled again.
//! - A call that **waits** for another call for its document has no effect.
//! - A **command** that was begun runs to the server's reply, in a task, and no connection is closed. The document's next call
//!   waits for it, calls for other documents do not. So a document that another client has locked occupies one connection,
//!   however many calls for it are dropped. A call of several commands may end between two of them.
//! - A **transaction of the call's own** has no effect, unless its commit had begun, which completes. The task aborts the
//!   transaction after the reply.
//! - An item that was sent **together with items of other calls** may be stored, as long as one such call waits. If all are
//!   dropped, only the command in flight completes, and a transaction is aborted unless its commit had begun.
//! - A **transaction of the caller** is aborted, because it is unknown whether the command in flight is part of it. During
//!   the one round trip of the abort, another transaction on the same documents may meet a write conflict.
//! - A **session of the caller** is of no further use, with a transaction or without. Every command in it, the commit and
//!   the start of a transaction fail, and nothing is sent. Start a new session.
//!
//! A dropped call is not an error: retry it as one whose [outcome is unknown](crate::Error::is_outcome_unknown).
//!
//! Drop a future, or poll it to its end. A call that is neither polled nor dropped, such as a call of a `buffered` stream
//! whose reader awaits something else, lets the next call for its document wait.
//!
//! The tasks run on the tokio runtime of the call. Before a runtime ends, [`drain`](crate::drain) waits for them. Otherwise
//! the server may still execute a command in flight, and aborts an open transaction up to 90 seconds after its start, with
//! the default of `transactionLifetimeLimitSeconds`.
//!
//! Several runtimes of a process can share a repository, if the client's runtime lives. If calls of two runtimes join and
//! one runtime ends, the other calls send again what was not sent. An item that the ended runtime had sent is an error of
//! the kind [`Network`](crate::ErrorKind::Network).
//!
//! # Errors
//!
//! Each call lists the errors that it adds. An error changes nothing, unless the list says otherwise. Every call can also return
//! these kinds:
//!
//! - [`Driver`], [`Network`], [`ServerSelection`], [`WriteConcern`] and [`Unauthorized`]: the errors of the driver and the
//!   server. [`is_outcome_unknown`](crate::Error::is_outcome_unknown) tells whether a write can have taken effect.
//! - [`InvalidArgument`], [`InvalidKey`], [`InvalidItemId`]: an id or a key that no document can have, or a filter that the
//!   server refuses.
//! - [`IndexMissing`], [`IndexMismatch`]: an index that the call relies on does not exist, or has another definition. Call
//!   `ensure_indexes()`.
//! - [`SettingsMismatch`]: the settings of the repository contradict the [catalog](crate::catalog). Calls that scan a collection
//!   compare them.
//! - [`Decode`] and [`Corrupt`]: a stored document does not have the type of the repository, or violates an invariant of its
//!   pattern.
//! - [`NotMigrated`], [`NewerVersion`]: a stored document has an earlier form, or a form of a later release.
//!
//! Of a stream, an error is the last item. Writes also return these kinds:
//!
//! - [`Encode`], [`TooLarge`]: the document cannot be encoded, or would exceed 16 MiB.
//! - [`DuplicateKey`], [`ValidationFailed`]: a unique index or a validator of your own refuses the document.
//! - [`Contention`]: conflicts with other writers exhausted the retry policy.
//! - [`Unsupported`]: the call needs a transaction, and the server is a standalone.
//!
//! [`Driver`]: crate::ErrorKind::Driver
//! [`Network`]: crate::ErrorKind::Network
//! [`ServerSelection`]: crate::ErrorKind::ServerSelection
//! [`WriteConcern`]: crate::ErrorKind::WriteConcern
//! [`Unauthorized`]: crate::ErrorKind::Unauthorized
//! [`InvalidArgument`]: crate::ErrorKind::InvalidArgument
//! [`InvalidKey`]: crate::ErrorKind::InvalidKey
//! [`InvalidItemId`]: crate::ErrorKind::InvalidItemId
//! [`IndexMissing`]: crate::ErrorKind::IndexMissing
//! [`IndexMismatch`]: crate::ErrorKind::IndexMismatch
//! [`SettingsMismatch`]: crate::ErrorKind::SettingsMismatch
//! [`NotMigrated`]: crate::ErrorKind::NotMigrated
//! [`NewerVersion`]: crate::ErrorKind::NewerVersion
//! [`Decode`]: crate::ErrorKind::Decode
//! [`Corrupt`]: crate::ErrorKind::Corrupt
//! [`Encode`]: crate::ErrorKind::Encode
//! [`TooLarge`]: crate::ErrorKind::TooLarge
//! [`DuplicateKey`]: crate::ErrorKind::DuplicateKey
//! [`ValidationFailed`]: crate::ErrorKind::ValidationFailed
//! [`Contention`]: crate::ErrorKind::Contention
//! [`Unsupported`]: crate::ErrorKind::Unsupported

mod define;
mod find;
mod one;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, TryFutureExt};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;
use tracing::field::Empty;
use tracing::{Instrument, Span};

pub use self::find::Find;
#[doc(hidden)]
pub use self::find::{check_stream, limited, of_call};
pub use self::one::{Read, Write};
use crate::error::{self, Error, Operation, Result};
use crate::measure;
#[doc(hidden)]
pub use crate::send::batch::{aggregate_batch_size, batch_size, one_batch};

/// The call and the collection of an action.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The pattern, such as `bucket`.
    pub pattern: &'static str,
    /// The method, such as `append`.
    pub operation: &'static str,
    /// Its collection.
    pub collection: &'a Collection<RawDocumentBuf>,
    /// The bound of the time of its reads, unless the caller sets one.
    pub max_time: Option<Duration>,
}

crate::redacted_debug!(
    Call<'_>,
    |call| "operation" = call.operation,
    "collection" = call.collection.namespace()
);

impl<'a> Call<'a> {
    /// Creates the call of a method.
    pub fn new(pattern: &'static str, operation: &'static str, collection: &'a Collection<RawDocumentBuf>) -> Self {
        Self {
            pattern,
            operation,
            collection,
            max_time: None,
        }
    }

    /// Sets the operation in an error, unless an inner one is set already.
    pub fn name(&self, error: Error) -> Error {
        error.in_operation(&Operation {
            pattern: self.pattern,
            name: self.operation,
            namespace: self.collection.namespace(),
        })
    }
}

/// The future of an action. It is `Send`, and borrows what the action borrows.
///
/// ```
/// # use mongo_patterns::action::ActionFuture;
/// async fn both(first: ActionFuture<'_, u64>, second: ActionFuture<'_, u64>) -> mongo_patterns::Result<u64> {
///     Ok(first.await? + second.await?)
/// }
/// ```
pub type ActionFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The stream of an action. It is `Send`, and borrows what the action borrows.
pub type ActionStream<'a, T> = Pin<Box<dyn Stream<Item = Result<T>> + Send + 'a>>;

/// Runs the body of an action in a [span](self#spans), sets the operation in its error, and measures it.
#[doc(hidden)]
pub fn run<'a, T: 'a>(call: Call<'a>, body: impl Future<Output = Result<T>> + Send + 'a) -> ActionFuture<'a, T> {
    let collection = call.collection.name();
    let span = tracing::debug_span!(
        "mongo_patterns",
        otel.name = %format_args!("{} {collection}", call.operation),
        otel.kind = "client",
        otel.status_code = Empty,
        db.system.name = "mongodb",
        db.namespace = call.collection.namespace().db,
        db.collection.name = collection,
        db.operation.name = call.operation,
        db.response.status_code = Empty,
        error.type = Empty,
        mongo_patterns.pattern = call.pattern,
        mongo_patterns.attempts = Empty,
    );
    let of_error = span.clone();
    // An async block would store the body twice: captured, and awaited.
    let body = body.map_err(move |error| {
        record_error(&of_error, &error);
        call.name(error)
    });
    Box::pin(measure::operation(call.pattern, call.operation, collection, body).instrument(span))
}

fn record_error(span: &Span, error: &Error) {
    if span.is_disabled() {
        return;
    }
    span.record("otel.status_code", "ERROR");
    span.record("error.type", error.kind().code());
    if let Some(code) = error.as_driver_error().and_then(error::code) {
        // The conventions have it as text.
        span.record("db.response.status_code", tracing::field::display(code));
    }
}

/// Records the number of attempts in the action's span.
#[doc(hidden)]
pub fn record_attempts(span: &Span, attempts: u32) {
    span.record("mongo_patterns.attempts", attempts);
}
