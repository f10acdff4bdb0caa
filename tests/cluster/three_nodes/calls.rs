//! Calls of the load, and what their callers were told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mongo_patterns::{Error, ErrorKind};
use tokio::sync::watch;

use super::history::Moment;

/// The machine is not for the load alone.
const PACE: Duration = Duration::from_millis(20);
/// How long callers wait.
const IMPATIENT: Duration = Duration::from_millis(1500);
const PATIENT: Duration = Duration::from_secs(30);
/// How long the load may stand still.
const STILL: Duration = Duration::from_secs(120);

/// What a caller was told.
#[derive(Debug)]
pub enum Told<T> {
    Done(T),
    /// The call may have done what it should, or may do it still: its outcome is unknown, it says that something is stored,
    /// or its future was dropped.
    Unknown,
    /// It says that it has done nothing.
    Refused(ErrorKind),
}

impl<T> Told<T> {
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

/// How often callers of one kind were told what.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub done: u64,
    pub unknown: u64,
    pub dropped: u64,
    /// By the kind of the error, and the server's code.
    pub errors: BTreeMap<String, u64>,
}

/// What all callers were told, and when they are to stop.
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

    /// Waits a little between two calls. Returns whether to go on.
    pub async fn goes_on(&self) -> bool {
        tokio::time::sleep(PACE).await;
        !self.stop.load(Ordering::Relaxed)
    }

    /// Makes call number `n` of a kind. One in four is dropped when it takes long, as a service does with a request that
    /// nobody waits for any more.
    pub async fn call<T>(
        &self,
        kind: &'static str,
        n: i64,
        call: impl IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
    ) -> Told<T> {
        let told = self
            .tell(kind, if n % 4 == 0 { IMPATIENT } else { PATIENT }, call)
            .await;
        if told.is_done() {
            self.done.send_modify(|done| *done += 1);
        }
        told
    }

    /// Makes a call that only reads.
    pub async fn read<T>(&self, kind: &'static str, call: impl Future<Output = Result<T, Error>> + Send) -> Told<T> {
        self.tell(kind, PATIENT, call).await
    }

    async fn tell<T>(
        &self,
        kind: &'static str,
        patience: Duration,
        call: impl IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
    ) -> Told<T> {
        let outcome = tokio::time::timeout(patience, call.into_future()).await;
        let mut counts = lock(&self.counts);
        let counts = counts.entry(kind).or_default();
        let error = match outcome {
            Ok(Ok(value)) => {
                counts.done += 1;
                return Told::Done(value);
            }
            Ok(Err(error)) => error,
            Err(_) => {
                counts.dropped += 1;
                return Told::Unknown;
            }
        };
        *counts.errors.entry(name(&error)).or_default() += 1;
        if !error.is_outcome_unknown() && error.stored_count().unwrap_or(0) == 0 {
            return Told::Refused(error.kind());
        }
        counts.unknown += 1;
        Told::Unknown
    }

    /// Waits until so many more calls are done.
    pub async fn progress(&self, calls: u64) {
        let mut done = self.done.subscribe();
        let enough = *done.borrow() + calls;
        let more = done.wait_for(|done| *done >= enough);
        tokio::time::timeout(STILL, more)
            .await
            .expect("the load stands still")
            .unwrap();
    }

    pub fn counts(&self) -> BTreeMap<&'static str, Counts> {
        lock(&self.counts).clone()
    }
}

/// An error for a count: its kind, and the server's code where there is one.
fn name(error: &Error) -> String {
    let code = error.as_driver_error().and_then(mongo_patterns_core::error::code);
    match code {
        Some(code) => format!("{:?} {code}", error.kind()),
        None => format!("{:?}", error.kind()),
    }
}

/// What may have become of something that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Acknowledged,
    Unknown,
    Refused,
}

impl<T> From<&Told<T>> for Fate {
    fn from(told: &Told<T>) -> Self {
        match told {
            Told::Done(_) => Self::Acknowledged,
            Told::Unknown => Self::Unknown,
            Told::Refused(_) => Self::Refused,
        }
    }
}

/// What became of each item of one kind.
#[derive(Debug, Default)]
pub struct Fates(Mutex<BTreeMap<i64, Fate>>);

impl Fates {
    pub fn note(&self, item: i64, fate: Fate) {
        lock(&self.0).insert(item, fate);
    }

    /// Compares with what is stored: the acknowledged once, the unknown at most once, nothing else. Returns how many
    /// were acknowledged, unknown, and unknown but stored.
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
                (None, 1) => wrong.push(("stored by nobody", item)),
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
