//! Measurements with the `metrics` crate.

use std::future::Future;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use ::metrics::{Label, counter, gauge, histogram};
use futures::FutureExt;
use futures::future::{Either, lazy};

use crate::error::Result;
use crate::metrics::{
    ATTEMPTS, CHANGES, CONFLICTS, DURATION, JOINED, LAG, MIGRATED, OPERATIONS, OVERFLOW, REFRESHES, RETRIES, SPILLED,
    TAKEN_OVER, TAKEN_OVER_DURATION, WAITING,
};

tokio::task_local! {
    static OPERATION: Labels;
}

/// The labels of an operation.
#[derive(Clone)]
struct Labels {
    pattern: &'static str,
    operation: &'static str,
    collection: Arc<str>,
}

impl Labels {
    fn list(&self) -> Vec<Label> {
        vec![
            Label::from_static_parts("pattern", self.pattern),
            Label::from_static_parts("operation", self.operation),
            Label::new("collection", Arc::clone(&self.collection)),
        ]
    }
}

/// Calls a function with the labels of the operation that is being polled, if there is one.
fn with_labels(call: impl FnOnce(Vec<Label>)) {
    // An error means that there is none.
    let _ = OPERATION.try_with(|labels| call(labels.list()));
}

/// An operation under way. Dropping it means that its future was dropped.
struct Measure {
    labels: Labels,
    started: Instant,
    outcome: Option<&'static str>,
}

impl Measure {
    fn start(labels: Labels) -> Self {
        counter!(ATTEMPTS, labels.list()).increment(1);
        Self {
            labels,
            started: Instant::now(),
            outcome: None,
        }
    }

    fn end<T>(mut self, result: Result<T>) -> Result<T> {
        self.outcome = Some(result.as_ref().err().map_or("ok", |error| error.kind().code()));
        result
    }
}

impl Drop for Measure {
    fn drop(&mut self) {
        let mut labels = self.labels.list();
        histogram!(DURATION, labels.clone()).record(self.started.elapsed());
        labels.push(Label::from_static_parts("outcome", self.outcome.unwrap_or("cancelled")));
        counter!(OPERATIONS, labels).increment(1);
    }
}

/// Measures an operation from its first poll to its end.
pub fn operation<T, F>(
    pattern: &'static str,
    operation: &'static str,
    collection: &str,
    body: F,
) -> impl Future<Output = Result<T>>
where
    F: Future<Output = Result<T>>,
{
    let labels = Labels {
        pattern,
        operation,
        collection: collection.into(),
    };
    let body = OPERATION.scope(labels.clone(), body);
    // An async block would store the body twice: captured, and awaited.
    lazy(move |_| Measure::start(labels)).then(move |measure| body.map(move |result| measure.end(result)))
}

/// Returns a future that counts for the current operation, for a task that the operation spawns.
pub fn inherit<F: Future>(future: F) -> impl Future<Output = F::Output> {
    match OPERATION.try_with(Labels::clone) {
        Ok(labels) => Either::Left(OPERATION.scope(labels, future)),
        Err(_) => Either::Right(future),
    }
}

fn count(name: &'static str, number: u64) {
    if number > 0 {
        with_labels(|labels| counter!(name, labels).increment(number));
    }
}

/// Counts a conflict with a concurrent writer.
pub fn conflict() {
    count(CONFLICTS, 1);
}

/// Counts a retry, which is also an attempt.
pub fn retry() {
    count(RETRIES, 1);
    count(ATTEMPTS, 1);
}

/// Counts elements that were stored in overflow documents.
pub fn spilled(elements: usize) {
    count(SPILLED, elements as u64);
}

/// Counts overflow documents that were opened.
pub fn overflow_documents(opened: usize) {
    count(OVERFLOW, opened as u64);
}

/// Counts refreshes with a result.
pub fn refreshed(result: &'static str, parents: u64) {
    if parents > 0 {
        with_labels(|mut labels| {
            labels.push(Label::from_static_parts("result", result));
            counter!(REFRESHES, labels).increment(parents);
        });
    }
}

/// Counts migrated documents.
pub fn migrated(documents: u64) {
    count(MIGRATED, documents);
}

fn with_follower(name: &str, call: impl FnOnce(Vec<Label>)) {
    with_labels(|mut labels| {
        labels.push(Label::new("follower", name.to_owned()));
        call(labels);
    });
}

/// Counts changes that a follower processed.
pub fn followed(follower: &str, changes: u64) {
    with_follower(follower, |labels| counter!(CHANGES, labels).increment(changes));
}

/// Sets the lag of a follower, which has processed all changes up to a Unix second.
pub fn follower_lag(follower: &str, up_to: u32) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0.0, |now| now.as_secs_f64());
    let lag = (now - f64::from(up_to)).max(0.0);
    with_follower(follower, |labels| gauge!(LAG, labels).set(lag));
}

fn of_collection(collection: Arc<str>) -> Vec<Label> {
    vec![Label::new("collection", collection)]
}

/// A call that waits for a lane.
#[derive(Debug)]
pub struct Waiting(Arc<str>);

impl Waiting {
    /// Counts it until it is dropped.
    pub fn begin(collection: &Arc<str>) -> Self {
        gauge!(WAITING, of_collection(Arc::clone(collection))).increment(1);
        Self(Arc::clone(collection))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        gauge!(WAITING, of_collection(Arc::clone(&self.0))).decrement(1);
    }
}

/// Counts the items of a command of several calls.
pub fn joined(collection: &str, items: usize) {
    counter!(JOINED, of_collection(collection.into())).increment(items as u64);
}

/// What a dropped call has sent, until the reply.
#[derive(Debug)]
pub struct TakenOver(Instant);

impl TakenOver {
    /// Counts it until it is dropped.
    pub fn begin() -> Self {
        gauge!(TAKEN_OVER).increment(1);
        Self(Instant::now())
    }
}

impl Drop for TakenOver {
    fn drop(&mut self) {
        gauge!(TAKEN_OVER).decrement(1);
        histogram!(TAKEN_OVER_DURATION).record(self.0.elapsed());
    }
}
