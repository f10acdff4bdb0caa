//! Calls of the load, and their outcomes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mongo_patterns::{Error, ErrorKind};
use tokio::sync::watch;

use super::history::Moment;

/// The pause between two calls of a task.
const PACE: Duration = Duration::from_millis(20);
/// The timeouts of the callers.
const SHORT_TIMEOUT: Duration = Duration::from_millis(1500);
const LONG_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the load may make no progress.
const STALLED: Duration = Duration::from_secs(120);

/// The outcome of a call for its caller.
#[derive(Debug)]
pub enum Outcome<T> {
    Done(T),
    /// The call may have taken effect, or may still: its outcome is unknown, its error reports stored items, or its
    /// future was dropped.
    Unknown,
    /// The call had no effect.
    Refused(ErrorKind),
}

impl<T> Outcome<T> {
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

/// The number of each outcome of one kind of call.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub done: u64,
    pub unknown: u64,
    pub dropped: u64,
    /// By the kind of the error, and the server's code.
    pub errors: BTreeMap<String, u64>,
}

/// The outcomes of all calls, and the signal to stop.
#[derive(Debug)]
pub struct Load {
    counts: Mutex<BTreeMap<&'static str, Counts>>,
    done: watch::Sender<u64>,
    stop: AtomicBool,
    started: Instant,
}

impl Load {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            counts: Mutex::default(),
            done: watch::Sender::new(0),
            stop: AtomicBool::new(false),
            started: Instant::now(),
        })
    }

    pub fn now(&self) -> Moment {
        self.started.elapsed().as_micros() as Moment
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits a little between two calls. Returns whether to continue.
    pub async fn continues(&self) -> bool {
        tokio::time::sleep(PACE).await;
        !self.stop.load(Ordering::Relaxed)
    }

    /// Runs call number `n` of a kind. One in four has a short timeout and is then dropped, like a request whose client
    /// disconnects.
    pub async fn call<T>(
        &self,
        kind: &'static str,
        n: i64,
        call: impl IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
    ) -> Outcome<T> {
        let timeout = if n % 4 == 0 { SHORT_TIMEOUT } else { LONG_TIMEOUT };
        let outcome = self.run(kind, timeout, call).await;
        if outcome.is_done() {
            self.done.send_modify(|done| *done += 1);
        }
        outcome
    }

    /// Runs a call that only reads.
    pub async fn read<T>(&self, kind: &'static str, call: impl Future<Output = Result<T, Error>> + Send) -> Outcome<T> {
        self.run(kind, LONG_TIMEOUT, call).await
    }

    /// Repeats a call until it succeeds, or its document exists after an attempt with an unknown outcome. Returns whether there
    /// was such an attempt.
    pub async fn store<T, A>(&self, kind: &'static str, n: i64, call: impl Fn() -> A + Send) -> bool
    where
        A: IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
    {
        let (mut attempt, mut may_be_stored) = (n, false);
        loop {
            match self.call(kind, attempt, call()).await {
                Outcome::Done(_) => return may_be_stored,
                Outcome::Refused(ErrorKind::AlreadyExists) => {
                    assert!(may_be_stored, "{kind}: {n} exists before it was stored");
                    return true;
                }
                Outcome::Unknown => may_be_stored = true,
                Outcome::Refused(_) => {}
            }
            attempt += 1;
            self.continues().await;
        }
    }

    /// Repeats an insert until its document exists, whichever task has inserted it.
    pub async fn until_exists<T, A>(&self, kind: &'static str, insert: impl Fn() -> A + Send)
    where
        A: IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
    {
        loop {
            let outcome = self.call(kind, 1, insert()).await;
            if matches!(outcome, Outcome::Done(_) | Outcome::Refused(ErrorKind::AlreadyExists)) {
                return;
            }
            self.continues().await;
        }
    }

    async fn run<T>(
        &self,
        kind: &'static str,
        timeout: Duration,
        call: impl IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
    ) -> Outcome<T> {
        let outcome = tokio::time::timeout(timeout, call.into_future()).await;
        let mut counts = lock(&self.counts);
        let counts = counts.entry(kind).or_default();
        let error = match outcome {
            Ok(Ok(value)) => {
                counts.done += 1;
                return Outcome::Done(value);
            }
            Ok(Err(error)) => error,
            Err(_) => {
                counts.dropped += 1;
                return Outcome::Unknown;
            }
        };
        *counts.errors.entry(name(&error)).or_default() += 1;
        if !error.is_outcome_unknown() && error.stored_count().unwrap_or(0) == 0 {
            return Outcome::Refused(error.kind());
        }
        counts.unknown += 1;
        Outcome::Unknown
    }

    /// Waits for this number of further successful calls.
    pub async fn progress(&self, calls: u64) {
        let mut done = self.done.subscribe();
        let enough = *done.borrow() + calls;
        let more = done.wait_for(|done| *done >= enough);
        let more = tokio::time::timeout(STALLED, more).await;
        more.expect("the load makes no progress").unwrap();
    }

    pub fn counts(&self) -> BTreeMap<&'static str, Counts> {
        lock(&self.counts).clone()
    }
}

/// Returns the name by which an error is counted: its kind, and the server's code if there is one.
fn name(error: &Error) -> String {
    let code = error.as_driver_error().and_then(mongo_patterns_core::error::code);
    match code {
        Some(code) => format!("{:?} {code}", error.kind()),
        None => format!("{:?}", error.kind()),
    }
}

/// The possible outcomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Acknowledged,
    Unknown,
    Refused,
}

impl<T> From<&Outcome<T>> for Fate {
    fn from(outcome: &Outcome<T>) -> Self {
        match outcome {
            Outcome::Done(_) => Self::Acknowledged,
            Outcome::Unknown => Self::Unknown,
            Outcome::Refused(_) => Self::Refused,
        }
    }
}

/// The outcome of each item of one kind.
#[derive(Debug, Default)]
pub struct Fates(Mutex<BTreeMap<i64, Fate>>);

impl Fates {
    pub fn note(&self, item: i64, fate: Fate) {
        lock(&self.0).insert(item, fate);
    }

    /// Compares the outcomes with the stored items: acknowledged ones are stored once, unknown ones at most once, and
    /// no others. Returns the numbers of acknowledged, unknown, and unknown but stored items.
    pub fn judge(&self, what: &str, stored: impl IntoIterator<Item = i64>) -> (usize, usize, usize) {
        let fates = lock(&self.0);
        let mut times: BTreeMap<i64, u32> = BTreeMap::new();
        for item in stored {
            *times.entry(item).or_default() += 1;
        }
        let mut wrong: Vec<(&str, i64)> = Vec::new();
        for item in fates.keys().chain(times.keys()).copied() {
            let stored = times.get(&item).copied().unwrap_or(0);
            match (fates.get(&item), stored) {
                (_, 2..) => wrong.push(("stored twice", item)),
                (Some(Fate::Acknowledged), 0) => wrong.push(("acknowledged and lost", item)),
                (Some(Fate::Refused), 1) => wrong.push(("refused and stored", item)),
                (None, 1) => wrong.push(("stored but never written", item)),
                _ => {}
            }
        }
        assert!(wrong.is_empty(), "{what}: {wrong:?}");
        let number = |of: Fate| fates.values().filter(|fate| **fate == of).count();
        let found = fates
            .iter()
            .filter(|(item, fate)| **fate == Fate::Unknown && times.contains_key(item));
        (number(Fate::Acknowledged), number(Fate::Unknown), found.count())
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
