//! How a call becomes a future.
//!
//! Every call of a repository returns an action: a `#[must_use]` struct with setters for its options that borrows the
//! repository and, when the caller gives one, the session, and that `IntoFuture` turns into an [`ActionFuture`]. What
//! the actions share is [`run`]: a span for `tracing`, and the operation's name in every error.

use std::future::Future;
use std::pin::Pin;

use tracing::Instrument;
use tracing::field::Empty;

use crate::error::{Operation, Result};

/// The future of an action: it can be spawned, and borrows what the action borrows.
pub type ActionFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Runs the body of an action in a span of its own, and names the operation in its error.
///
/// The span has the fields `pattern`, `operation`, `namespace`, and `attempts` where [`record_attempts`] sets it. It
/// never has user data.
pub fn run<'a, T>(operation: Operation, body: impl Future<Output = Result<T>> + Send + 'a) -> ActionFuture<'a, T>
where
    T: 'a,
{
    let span = tracing::debug_span!(
        "mongo_patterns",
        pattern = operation.pattern,
        operation = operation.name,
        namespace = %operation.namespace,
        attempts = Empty,
    );
    Box::pin(async move { body.await.map_err(|error| error.in_operation(&operation)) }.instrument(span))
}

/// Notes in the action's span how many attempts it took.
pub fn record_attempts(attempts: u32) {
    tracing::Span::current().record("attempts", attempts);
}
