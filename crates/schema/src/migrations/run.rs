//! `run`.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::{Either, select};

use mongo_patterns_core::action::{self, ActionFuture, Call};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::code;
use mongo_patterns_core::lease::{HeldLease, Lease};
use mongo_patterns_core::topology::Topology;
use mongo_patterns_core::transaction::{self, Body};
use mongo_patterns_core::{Error, ErrorKind, Result, RetryPolicy};
use mongodb::Database;
use mongodb::options::{DatabaseOptions, WriteConcern};
use tokio::time::timeout;

use super::order::{self, check_names, unknown};
use super::record::{Record, Stored, lost};
use super::results::Applied;
use super::step::{InTransaction, Step, Work};
use super::{Migrations, NAME};

/// The server's codes of a transaction that it has aborted, of a creation in a transaction with a snapshot, and of another command
/// that no transaction has.
const NO_TRANSACTION: i32 = 251;
const NO_CREATION: i32 = 72;
const NOT_IN_TRANSACTION: i32 = 263;
/// How long a run waits for the release of its lease.
pub(super) const RELEASED_WITHIN: Duration = Duration::from_secs(1);

impl Migrations {
    /// Applies the steps that have not been applied, in their order. One instance runs them, the others wait for it.
    ///
    /// A service calls it when it starts, before it serves.
    ///
    /// See the [module](super#guarantees) for its guarantees.
    ///
    /// # Cost
    /// One round trip if all steps are applied. Otherwise four or five, and for each step its own commands and one more, or
    /// two in a transaction. While it waits, one for each pause, of at most a second. While steps run, one for each third of
    /// the [time to live](Self::time_to_live).
    ///
    /// # Cancel safety
    /// The applied steps stay applied. A plain step is dropped where it is, and the server may still execute its last
    /// command. A step in a transaction has an effect as a whole or not at all. The other instances wait for the [time to
    /// live](Self::time_to_live).
    ///
    /// # Errors
    /// [`step`](Error::step) names the step that an error is about. With nothing run:
    ///
    /// - [`Configuration`](ErrorKind::Configuration): a step has an empty name or the name of another step, or the time to
    ///   live is out of its range.
    /// - [`SettingsMismatch`](ErrorKind::SettingsMismatch): the list and the applied steps contradict each other, as the
    ///   [module](super#the-order-of-steps) describes.
    /// - [`Unsupported`](ErrorKind::Unsupported): a pending step is in a transaction, and the server is a standalone.
    /// - [`Contention`](ErrorKind::Contention): another instance ran for longer than [`max_wait`](Self::max_wait), or failed
    ///   with an unknown outcome of the named step. A call begins after the end of its lease.
    /// - [`Corrupt`](ErrorKind::Corrupt): the record of the applied steps is damaged.
    ///
    /// With the earlier steps applied, and the later ones not:
    ///
    /// - The error of a step. The next call runs the step again.
    /// - [`Unsupported`](ErrorKind::Unsupported): the server refuses a command in a transaction.
    /// - [`InvalidArgument`](ErrorKind::InvalidArgument): a step in a transaction returns no error, but the server has
    ///   aborted it.
    /// - [`Contention`](ErrorKind::Contention): the lease was lost, because the process was paused or the server did not
    ///   answer for longer than the time to live. This instance has not recorded the step, which another instance or call
    ///   runs.
    /// - The errors of the driver. After an [unknown outcome](Error::is_outcome_unknown), the step may be applied: the next
    ///   call finds out.
    pub fn run(self) -> ActionFuture<'static, Applied> {
        let record = self.record();
        Box::pin(async move {
            let call = Call::new(NAME, "run", &record.catalog);
            action::run(call, self.run_with(&record)).await
        })
    }

    async fn run_with(self, record: &Record) -> Result<Applied> {
        let lease = self.lease();
        lease.check()?;
        check_names(&self.names())?;
        let mut done = Applied::default();
        let Some(held) = self.wait(record, &lease, &mut done).await? else {
            return Ok(done);
        };
        let ran = self.run_pending(record, &held, &mut done).await;
        match &ran {
            // The last command of a plain step may still be executed. The lease ends by itself, and those that wait see why.
            Err(Failed {
                error,
                is_fenced: false,
            }) if error.is_outcome_unknown() => {
                let failed = record.fail(held.fence(), error.step().unwrap_or_default());
                let _ = timeout(RELEASED_WITHIN, failed).await;
            }
            // The lease ends by itself, too, if the release fails.
            _ => drop(timeout(RELEASED_WITHIN, held.release()).await),
        }
        ran.map(|()| done).map_err(|failed| failed.error)
    }

    /// Acquires the lease. `None` if all steps are applied.
    async fn wait(&self, record: &Record, lease: &Lease, done: &mut Applied) -> Result<Option<HeldLease>> {
        let (names, started) = (self.names(), Instant::now());
        let mut is_checked = false;
        loop {
            let stored = record.read(lease).await?;
            let Stored {
                steps, running_since, ..
            } = &stored;
            done.unknown = unknown(&names, steps);
            let pending = order::pending(&names, steps, self.is_any_order)?;
            if pending.is_empty() {
                return Ok(None);
            }
            if let Some(step) = stored.failed {
                return Err(failed_elsewhere().with_step(step));
            }
            let is_in_transaction = |at: &usize| matches!(self.steps[*at].work, Work::InTransaction(_));
            let has_transaction = pending.iter().any(is_in_transaction);
            if has_transaction && !is_checked {
                Topology::read(&record.catalog, &mut Conn::new())
                    .await?
                    .check_transactions()?;
                is_checked = true;
            }
            if running_since.is_none()
                && let Some(held) = lease.attempt().await?
            {
                return Ok(Some(held));
            }
            let left = self.max_wait.map(|wait| wait.saturating_sub(started.elapsed()));
            if left == Some(Duration::ZERO) {
                return Err(already_running());
            }
            // A time-out means that the wait is over, after a last attempt.
            let _ = timeout(left.unwrap_or(Duration::MAX), lease.pause()).await;
        }
    }

    /// Runs the steps that have not been applied, as the holder of the lease.
    async fn run_pending(
        self,
        record: &Record,
        held: &HeldLease,
        done: &mut Applied,
    ) -> std::result::Result<(), Failed> {
        let applied = keep(held, record.claim(held.fence())).await?;
        let pending = order::pending(&self.names(), &applied, self.is_any_order)?;
        done.unknown = unknown(&self.names(), &applied);
        let acknowledged = acknowledged_by_majority(&self.database);
        let steps = self.steps.into_iter().enumerate();
        for (_, Step { name, work }) in steps.filter(|(at, _)| pending.contains(at)) {
            let mut is_fenced = true;
            let ran = match work {
                Work::Plain(work) => match keep(held, work(acknowledged.clone())).await {
                    Ok(()) => fenced(held, record.add(&mut Conn::new(), held.fence(), &name)).await,
                    Err(error) => {
                        is_fenced = false;
                        Err(error)
                    }
                },
                Work::InTransaction(work) => {
                    let step = TransactionOfStep {
                        work,
                        database: &self.database,
                        record,
                        held,
                        was_tried: AtomicBool::new(false),
                        was_aborted: AtomicBool::new(false),
                        name: &name,
                        retry: &self.retry,
                    };
                    fenced(held, step.run()).await
                }
            };
            ran.map_err(|error| Failed {
                error: error.with_step(&name),
                is_fenced,
            })?;
            done.steps.push(name);
        }
        Ok(())
    }
}

/// Why a run has ended.
struct Failed {
    error: Error,
    /// Whether the fence refuses what the server may still execute.
    is_fenced: bool,
}

impl From<Error> for Failed {
    /// Of the list or the record, before a step.
    fn from(error: Error) -> Self {
        let is_fenced = true;
        Self { error, is_fenced }
    }
}

/// Does some work while the lease is held. The work is dropped when the lease is lost.
async fn keep<T>(held: &HeldLease, work: impl Future<Output = Result<T>>) -> Result<T> {
    held.keep(work).await.map_err(|_| lost())?
}

/// Does some work whose effect the fence refuses after another instance has taken over. So it runs to its end, and its result
/// says whether it took effect.
async fn fenced<T>(held: &HeldLease, work: impl Future<Output = Result<T>>) -> Result<T> {
    match select(pin!(work), pin!(held.keep(pending::<()>()))).await {
        Either::Left((done, _)) => done,
        Either::Right((_, work)) => work.await,
    }
}

/// Returns the database for plain steps. What they write must not be rolled back after the record of the step, which is
/// acknowledged by a majority.
fn acknowledged_by_majority(database: &Database) -> Database {
    let options = DatabaseOptions::builder()
        .selection_criteria(database.selection_criteria().cloned())
        .read_concern(database.read_concern().cloned())
        .write_concern(WriteConcern::majority())
        .build();
    database.client().database_with_options(database.name(), options)
}

/// A step and its record in one transaction.
struct TransactionOfStep<'a> {
    work: InTransaction,
    database: &'a Database,
    record: &'a Record,
    held: &'a HeldLease,
    was_tried: AtomicBool,
    /// Whether the server had aborted the transaction after the work of an earlier attempt.
    was_aborted: AtomicBool,
    name: &'a str,
    retry: &'a RetryPolicy,
}

impl TransactionOfStep<'_> {
    async fn run(self) -> Result<()> {
        let (catalog, retry) = (&self.record.catalog, self.retry);
        let body: Body<Self, ()> = |conn, step| {
            let (work, database) = (step.work.clone(), step.database.clone());
            Box::pin(async move {
                if step.was_tried.swap(true, Ordering::Relaxed) {
                    // The conflict may be with the holder after this one, and the fence is checked after the work.
                    step.held.renew().await.map_err(|error| match error.kind() {
                        ErrorKind::Contention => lost(),
                        _ => error,
                    })?;
                }
                let worked = conn.callback(Box::new(move |session| work(database, session)));
                worked.await.map_err(explained)?;
                // Last: until the commit, the record is locked for the next holder of the lease.
                let added = step.record.add(conn, step.held.fence(), step.name).await;
                added.map_err(|error| match server_code(&error) {
                    // Once, the primary may have changed.
                    Some(NO_TRANSACTION) if step.was_aborted.swap(true, Ordering::Relaxed) => swallowed(),
                    _ => error,
                })
            })
        };
        transaction::run(catalog, retry, &mut Conn::new(), self, body).await
    }
}

fn server_code(error: &Error) -> Option<i32> {
    error.as_driver_error().and_then(code)
}

/// Explains the error of a command that no transaction with a snapshot has.
fn explained(error: Error) -> Error {
    match (server_code(&error), error.as_driver_error()) {
        (Some(NO_CREATION | NOT_IN_TRANSACTION), Some(cause)) => Error::from_driver(
            ErrorKind::Unsupported,
            "the server refuses a command of the step in a transaction, such as the creation of a collection or of an index, nothing was changed: move it to a step of its own by step(..), before this one",
            cause.clone(),
        ),
        _ => error,
    }
}

fn swallowed() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        "the server has aborted the transaction of the step twice, but the step returned no error, nothing was changed: return the error of each command, after which the transaction cannot continue, and send commands for less than 60 seconds",
    )
}

fn failed_elsewhere() -> Error {
    Error::new(
        ErrorKind::Contention,
        "another instance failed in this step, whose outcome is unknown, and the server may still execute its last command, nothing was run: call run() again, which begins when the lease of that instance has ended",
    )
}

fn already_running() -> Error {
    Error::new(
        ErrorKind::Contention,
        "another instance is running the steps, and did not finish within max_wait(..), nothing was run: call it again later, or set a longer time",
    )
}
