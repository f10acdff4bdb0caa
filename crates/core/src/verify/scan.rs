//! What the verifications and repairs of all patterns share.
//!
//! # Design
//!
//! ## Why is a finding read again after a pause?
//!
//! A writer of another process can be between two of its commands, and a scan does not read all documents at one moment.
//! A finding of two reads with [a pause](pause) between them is the problem of a writer that died, or of another program.

use std::future::poll_fn;
use std::mem::discriminant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use futures::TryStreamExt;
use futures::stream::{self, iter, try_unfold};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use super::finding::Finding;
use crate::action::{ActionFuture, ActionStream, Call};
use crate::error::Result;
use crate::index::Ensure;
use crate::progress::Reporter;
use crate::send;
use crate::verify::rounds::in_rounds;

/// The time that a writer normally needs between two of its commands, and after which a transaction that has committed is
/// visible on all shards.
const BETWEEN_COMMANDS: Duration = Duration::from_millis(50);

/// What a scan adds, for the stream that [`scan`] returns.
#[doc(hidden)]
pub struct Results<T>(Arc<Mutex<Option<T>>>);

crate::redacted_debug!(Results<T>);

impl<T> Results<T> {
    /// Returns an item to the caller. Continues when the caller polls for the next one.
    pub async fn add(&mut self, item: T) {
        *self.lock() = Some(item);
        // Without a waker: the stream takes the item in the same poll.
        poll_fn(|_| match self.lock().is_some() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }

    /// Returns items to the caller, one after another.
    pub async fn add_all(&mut self, items: impl IntoIterator<Item = T>) {
        for item in items {
            self.add(item).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the results of a scan, up to its first error. The scan runs only while the stream is polled, and sends nothing while
/// the caller has a result.
#[doc(hidden)]
pub fn scan<'a, T, F>(work: impl FnOnce(Results<T>) -> F) -> ActionStream<'a, T>
where
    T: Send + 'a,
    F: Future<Output = Result<()>> + Send + 'a,
{
    let results = Results(Arc::default());
    let next = Results(results.0.clone());
    let mut running = Some(Box::pin(work(results)));
    Box::pin(stream::poll_fn(move |context| {
        let Some(work) = &mut running else {
            return Poll::Ready(None);
        };
        let done = work.as_mut().poll(context);
        if let Some(result) = next.lock().take() {
            return Poll::Ready(Some(Ok(result)));
        }
        let done = ready!(done);
        running = None;
        Poll::Ready(done.err().map(Err))
    }))
}

/// Begins the progress of a scan of collections. One round trip for each, with a callback.
#[doc(hidden)]
pub async fn begin<'c>(
    reporter: &mut Reporter<'_>,
    collections: impl IntoIterator<Item = &'c Collection<RawDocumentBuf>, IntoIter: Send> + Send,
) -> Result<()> {
    if reporter.is_asked() {
        let mut documents = 0;
        for collection in collections {
            documents += send::estimated_count(collection).await?;
        }
        reporter.begin(documents);
    }
    Ok(())
}

/// Confirms or repairs what a scan found, up to `concurrency` at a time, in [rounds](in_rounds).
#[doc(hidden)]
pub fn each<'a, T, R>(
    found: ActionStream<'a, T>,
    concurrency: usize,
    work: impl FnMut(T) -> ActionFuture<'a, R> + Send + 'a,
) -> ActionStream<'a, R::Item>
where
    T: Send + 'a,
    R: IntoIterator<Item: Send, IntoIter: Send> + Send + 'a,
{
    let done = in_rounds(found.map_ok(work), concurrency);
    Box::pin(done.map_ok(|done| iter(done.into_iter().map(Ok))).try_flatten())
}

/// Compares the settings with the catalog, and then returns the stream up to its first error, which names the operation. An
/// error in place of the stream is that of an invalid argument: nothing is sent.
#[doc(hidden)]
pub fn checked<'a, T: Send + 'a>(
    ensure: Ensure<'a>,
    operation: &'static str,
    is_read: bool,
    stream: Result<ActionStream<'a, T>>,
) -> ActionStream<'a, T> {
    let call = Call {
        operation,
        ..ensure.call
    };
    after(call, Some(check(ensure, is_read)), stream)
}

/// Returns a stream after a check, up to its first error, which names the operation.
pub(super) fn after<'a, T: Send + 'a>(
    call: Call<'a>,
    check: Option<ActionFuture<'a, ()>>,
    stream: Result<ActionStream<'a, T>>,
) -> ActionStream<'a, T> {
    Box::pin(try_unfold((check, stream), move |(check, stream)| async move {
        let next = async {
            let mut stream = stream?;
            if let Some(check) = check {
                check.await?;
            }
            let next = stream.try_next().await?;
            Ok(next.map(|next| (next, (None, Ok(stream)))))
        };
        next.await.map_err(|error| call.name(error))
    }))
}

fn check(ensure: Ensure<'_>, is_read: bool) -> ActionFuture<'_, ()> {
    Box::pin(async move { ensure.check_repair(is_read).await })
}

/// Waits before a second read of a finding.
#[doc(hidden)]
pub fn pause() -> ActionFuture<'static, ()> {
    Box::pin(async {
        tokio::time::sleep(BETWEEN_COMMANDS).await;
        Ok(())
    })
}

/// Returns those findings of a second read that the first one had too.
#[doc(hidden)]
pub fn confirmed<P>(first: &[Finding<P>], mut second: Vec<Finding<P>>) -> Vec<Finding<P>> {
    second.retain(|second| {
        first.iter().any(|first| {
            first.document_id == second.document_id
                && first.namespace == second.namespace
                && discriminant(&first.problem) == discriminant(&second.problem)
        })
    });
    second
}
