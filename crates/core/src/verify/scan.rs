//! What the verifications and repairs of all patterns share.
//!
//! # Design
//!
//! ## Why is a finding read again after a pause?
//!
//! A writer of another process can be between two of its commands, and a scan does not read all documents at one moment.
//! A finding of two reads with [a pause](pause) between them is the problem of a writer that died, or of another program.

use std::mem::discriminant;
use std::time::Duration;

use futures::TryStreamExt;
use futures::stream::{iter, try_unfold};

use super::finding::Finding;
use crate::action::{ActionFuture, ActionStream, Call};
use crate::error::Result;
use crate::index::Ensure;
use crate::verify::rounds::in_rounds;

/// The time that a writer normally needs between two of its commands, and after which a transaction that has committed is
/// visible on all shards.
const BETWEEN_COMMANDS: Duration = Duration::from_millis(50);

/// A scan of stored documents.
#[doc(hidden)]
pub trait Scan: Send {
    /// What it finds.
    type Found: Send;

    /// Returns what it found in the next part of the documents. `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<Self::Found>>>> + Send;
}

/// Returns what a scan finds.
#[doc(hidden)]
pub fn scan<'a, S>(scan: S) -> ActionStream<'a, S::Found>
where
    S: Scan + 'a,
    S::Found: 'a,
{
    let start = (scan, Vec::new().into_iter());
    Box::pin(try_unfold(start, |(mut scan, mut found)| async move {
        loop {
            if let Some(next) = found.next() {
                return Ok(Some((next, (scan, found))));
            }
            match scan.next().await? {
                Some(part) => found = part.into_iter(),
                None => return Ok(None),
            }
        }
    }))
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
