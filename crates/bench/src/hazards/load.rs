//! The load: writers whose callers have time limits, while the primary is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures::future::BoxFuture;
use mongodb::error::{
    Error as DriverError, ErrorKind as DriverErrorKind, RETRYABLE_WRITE_ERROR, TRANSIENT_TRANSACTION_ERROR,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::cluster::{Cluster, WRITERS};
use crate::bucket::scatter;

pub(super) const CLIENTS: usize = 4;
/// The time limit of a first attempt, shorter than an election.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(1);
/// The time limit of the retry.
const RETRY_LIMIT: Duration = Duration::from_secs(60);
/// One of this number of operations is dropped midway.
const DROPPED: u64 = 20;
/// When such an operation is dropped, at the latest.
const DROPPED_WITHIN: u64 = 40;

/// The size of a run.
#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Size {
    pub(super) operations: u64,
    pub(super) kills: u64,
}

impl Size {
    pub(super) const FULL: Self = Self {
        operations: 4000,
        kills: 3,
    };
    pub(super) const QUICK: Self = Self {
        operations: 400,
        kills: 1,
    };
}

/// The number of no operation: the process ends in order.
pub(super) const END: u64 = u64::MAX;

/// What a write returns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Done,
    /// The list has as many elements as its bound allows.
    Full,
}

/// Why a write failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection broke, there was no primary, or writers conflicted. A caller retries.
    Transient,
    /// The server refused a valid operation.
    Refused(String),
}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        /// The server's error codes of a change of the primary.
        const CHANGED_PRIMARY: [i32; 7] = [91, 189, 10107, 11600, 11602, 13435, 13436];
        let is_network = match &*error.kind {
            DriverErrorKind::Io(_)
            | DriverErrorKind::ConnectionPoolCleared { .. }
            | DriverErrorKind::ServerSelection { .. } => true,
            DriverErrorKind::Command(refused) => CHANGED_PRIMARY.contains(&refused.code),
            _ => false,
        };
        let labels = [RETRYABLE_WRITE_ERROR, TRANSIENT_TRANSACTION_ERROR];
        match is_network || labels.iter().any(|label| error.contains_label(label)) {
            true => Self::Transient,
            false => Self::Refused(error.kind.to_string()),
        }
    }
}

impl From<mongo_patterns_core::Error> for Failure {
    fn from(error: mongo_patterns_core::Error) -> Self {
        match error.is_transient() || error.is_outcome_unknown() {
            true => Self::Transient,
            false => Self::Refused(error.to_string()),
        }
    }
}

/// Sends operation number `n`, from 0. [`END`] ends its process in order.
pub(super) type Write = Arc<dyn Fn(u64) -> BoxFuture<'static, Result<Answer, Failure>> + Send + Sync>;

/// Returns a write that calls a function.
pub(super) fn write<F>(of: impl Fn(u64) -> F + Send + Sync + 'static) -> Write
where
    F: Future<Output = Result<Answer, Failure>> + Send + 'static,
{
    Arc::new(move |number| Box::pin(of(number)))
}

/// What the caller knows about its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Acknowledged,
    /// The list was full, as the caller was informed.
    Full,
    Refused,
    /// The caller stopped to wait, or got an error after its retry.
    Unknown,
}

/// The fates of all operations, by their number.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    fates: Vec<Fate>,
    refusal: Option<String>,
}

impl Ledger {
    #[cfg(test)]
    pub(super) fn of(fates: &[Fate]) -> Self {
        Self {
            fates: fates.to_vec(),
            refusal: None,
        }
    }

    pub(super) fn count(&self, fate: Fate) -> u64 {
        self.fates.iter().filter(|&&known| known == fate).count() as u64
    }

    /// Returns the fates of all operations, by their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, Fate)> {
        (0..).zip(self.fates.iter().copied())
    }

    /// Returns the numbers of the acknowledged operations.
    pub(super) fn acknowledged(&self) -> impl Iterator<Item = u64> {
        let acknowledged = self.all().filter(|(_, fate)| *fate == Fate::Acknowledged);
        acknowledged.map(|(number, _)| number)
    }

    /// Returns the numbers of outcomes, and one of the errors.
    pub(super) fn summary(&self) -> String {
        let fates = [Fate::Acknowledged, Fate::Full, Fate::Refused, Fate::Unknown];
        let counts: Vec<String> = fates
            .iter()
            .map(|fate| format!("{fate:?} {}", self.count(*fate)))
            .collect();
        let refusal = self.refusal.iter().map(|text| format!(", such as `{text}`"));
        counts.join(", ") + &refusal.collect::<String>()
    }
}

/// The progress of a load, which waits while a node restarts.
struct Progress {
    next: AtomicU64,
    finished: watch::Sender<u64>,
    /// The number of operations that may begin.
    allowed: watch::Sender<u64>,
}

/// Runs all operations, and kills the primary in between. A killed node restarts before the next kill. Half of the
/// operations of a part run concurrently with the kill and the restart, and the rest afterwards.
pub(super) async fn run(cluster: &mut Cluster, size: Size, writes: &[Write]) -> Result<Ledger> {
    let progress = Arc::new(Progress {
        next: AtomicU64::new(0),
        finished: watch::Sender::new(0),
        allowed: watch::Sender::new(0),
    });
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let write = Arc::clone(&writes[writer as usize % writes.len()]);
        writers.spawn(run_writer(Arc::clone(&progress), size.operations, write));
    }
    let part = size.operations / (size.kills + 1);
    for kill in 1..=size.kills {
        progress.allowed.send_replace(kill * part + part / 2);
        let mut finished = progress.finished.subscribe();
        finished.wait_for(|finished| *finished >= kill * part).await?;
        let killed = cluster.set.kill_primary().await?;
        cluster.set.restart(killed).await?;
    }
    progress.allowed.send_replace(size.operations);
    let mut ledger = Ledger {
        fates: vec![Fate::Unknown; usize::try_from(size.operations)?],
        refusal: None,
    };
    while let Some(finished) = writers.join_next().await {
        let (fates, refusal) = finished??;
        for (number, fate) in fates {
            ledger.fates[usize::try_from(number)?] = fate;
        }
        ledger.refusal = refusal.or(ledger.refusal);
    }
    Ok(ledger)
}

type Finished = (Vec<(u64, Fate)>, Option<String>);

async fn run_writer(progress: Arc<Progress>, operations: u64, write: Write) -> Result<Finished> {
    let (mut fates, mut refusal) = (Vec::new(), None);
    let mut allowed = progress.allowed.subscribe();
    loop {
        let number = progress.next.fetch_add(1, Ordering::Relaxed);
        if number >= operations {
            return Ok((fates, refusal));
        }
        allowed.wait_for(|allowed| *allowed > number).await?;
        let fate = match call(number, &write).await {
            Ok(Some(Answer::Done)) => Fate::Acknowledged,
            Ok(Some(Answer::Full)) => Fate::Full,
            Ok(None) | Err(Failure::Transient) => Fate::Unknown,
            Err(Failure::Refused(text)) => {
                refusal = Some(text);
                Fate::Refused
            }
        };
        fates.push((number, fate));
        progress.finished.send_modify(|finished| *finished += 1);
    }
}

/// Calls as a service does: with a time limit, and one retry. Returns `None` if the caller stopped to wait.
async fn call(number: u64, write: &Write) -> Result<Option<Answer>, Failure> {
    let random = scatter(number);
    if random.is_multiple_of(DROPPED) {
        // The process dies between two commands, or while one is sent.
        let moment = Duration::from_millis((random >> 32) % DROPPED_WITHIN);
        return timeout(moment, write(number)).await.ok().transpose();
    }
    match timeout(TIME_LIMIT, write(number)).await {
        Err(_) | Ok(Err(Failure::Transient)) => timeout(RETRY_LIMIT, write(number)).await.ok().transpose(),
        Ok(answer) => answer.map(Some),
    }
}
