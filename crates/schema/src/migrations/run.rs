//! `run`.

use std::future::Future;
use std::time::{Duration, Instant};

use mongo_patterns_core::action::{self, ActionFuture, Call};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::lease::{HeldLease, Lease};
use mongo_patterns_core::topology::Topology;
use mongo_patterns_core::transaction::{self, Body};
use mongo_patterns_core::{Error, ErrorKind, Result, RetryPolicy};
use mongodb::Database;

use super::{Migrations, NAME};
use crate::order::{check_names, first_pending, unknown};
use crate::record::{Record, Stored, lost};
use crate::results::Applied;
use crate::step::{InTransaction, Step, Work};

impl Migrations {
    /// Applies the steps that have not been applied, in their order. One instance runs them, the others wait for it.
    ///
    /// A service calls it when it starts, before it serves.
    ///
    /// # Guarantees
    /// See the [crate](crate#guarantees).
    ///
    /// # Cost
    /// One round trip if all steps are applied. Otherwise four, one more if one of them is in a transaction, and for each
    /// step its own commands and one more, or two in a transaction. While it waits, at most two for each half second. While
    /// steps run, one for each third of the [time to live](Self::time_to_live).
    ///
    /// # Cancel safety
    /// The applied steps stay applied. A plain step is dropped where it is, and the server may still execute its last
    /// command. A step in a transaction is run to its end in a task, and has no effect, unless its commit had begun. The
    /// other instances wait for the [time to live](Self::time_to_live).
    ///
    /// # Errors
    /// [`step`](Error::step) names the step that an error is about. With nothing run:
    ///
    /// - [`Configuration`](ErrorKind::Configuration): a step has an empty name or that of another step, or the time to live
    ///   is out of its range.
    /// - [`SettingsMismatch`](ErrorKind::SettingsMismatch): the list and the applied steps contradict each other, as the
    ///   [crate](crate#the-order-of-steps) describes.
    /// - [`Unsupported`](ErrorKind::Unsupported): a pending step is in a transaction, and the server is a standalone.
    /// - [`Contention`](ErrorKind::Contention): another instance ran for longer than [`max_wait`](Self::max_wait).
    /// - [`Corrupt`](ErrorKind::Corrupt): the record of the applied steps is damaged.
    ///
    /// Else the earlier steps are applied, and the later ones are not:
    ///
    /// - The error of a step. The next call runs the step again.
    /// - [`Contention`](ErrorKind::Contention): the lease was lost, because the process was paused or the server did not
    ///   answer for longer than the time to live. The step is not recorded. Another instance runs it, or the next call.
    ///
    /// And those of the driver. After one whose [outcome is unknown](Error::is_outcome_unknown), the step may be applied:
    /// the next call finds out.
    pub fn run(self) -> ActionFuture<'static, Applied> {
        let record = self.record();
        Box::pin(async move {
            let call = Call::new(NAME, "run", &record.catalog);
            action::run(call, self.run_with(&record)).await
        })
    }

    async fn run_with(self, record: &Record) -> Result<Applied> {
        let (lease, names) = (self.lease(), self.names());
        check_names(&names)?;
        let stored = record.read(&lease).await?;
        let mut done = Applied {
            steps: Vec::new(),
            unknown: unknown(&names, &stored.steps),
        };
        if let Some(held) = self.wait(record, &lease, stored).await? {
            let ran = self.run_pending(record, &held, &mut done).await;
            // If it fails, the lease ends by itself.
            let _ = held.release().await;
            ran?;
        }
        Ok(done)
    }

    /// Acquires the lease. `None` if all steps are applied.
    async fn wait(&self, record: &Record, lease: &Lease, mut stored: Stored) -> Result<Option<HeldLease>> {
        let (names, started) = (self.names(), Instant::now());
        let mut is_checked = false;
        loop {
            let pending = &self.steps[first_pending(&names, &stored.steps)?..];
            if pending.is_empty() {
                return Ok(None);
            }
            let has_transaction = pending.iter().any(|step| matches!(step.work, Work::InTransaction(_)));
            if has_transaction && !is_checked {
                Topology::read(&record.catalog, &mut Conn::new())
                    .await?
                    .check_transactions()?;
                is_checked = true;
            }
            if let Some(held) = lease.attempt().await? {
                return Ok(Some(held));
            }
            let left = self.max_wait.map(|wait| wait.saturating_sub(started.elapsed()));
            if left == Some(Duration::ZERO) {
                return Err(already_running());
            }
            // A time-out means that the wait is over, after a last attempt.
            let _ = tokio::time::timeout(left.unwrap_or(Duration::MAX), lease.pause()).await;
            stored = record.read(lease).await?;
        }
    }

    /// Runs the steps that have not been applied, as the holder of the lease.
    async fn run_pending(self, record: &Record, held: &HeldLease, done: &mut Applied) -> Result<()> {
        let applied = keep(held, record.claim(held.fence())).await?;
        let first = first_pending(&self.names(), &applied)?;
        for Step { name, work } in self.steps.into_iter().skip(first) {
            let ran = match work {
                Work::Plain(work) => {
                    let work = work(self.database.clone());
                    let recorded = async {
                        work.await?;
                        record.add(&mut Conn::new(), held.fence(), &name).await
                    };
                    keep(held, recorded).await
                }
                Work::InTransaction(work) => {
                    let step = TransactionOfStep {
                        work,
                        database: &self.database,
                        record,
                        fence: held.fence(),
                        name: &name,
                        retry: &self.retry,
                    };
                    keep(held, step.run()).await
                }
            };
            ran.map_err(|error| error.with_step(&name))?;
            done.steps.push(name);
        }
        Ok(())
    }
}

/// Does some work while the lease is held.
async fn keep<T>(held: &HeldLease, work: impl Future<Output = Result<T>>) -> Result<T> {
    held.keep(work).await.map_err(|_| lost())?
}

/// A step and its record in one transaction.
struct TransactionOfStep<'a> {
    work: InTransaction,
    database: &'a Database,
    record: &'a Record,
    fence: i64,
    name: &'a str,
    retry: &'a RetryPolicy,
}

impl TransactionOfStep<'_> {
    async fn run(self) -> Result<()> {
        let (catalog, retry) = (&self.record.catalog, self.retry);
        let body: Body<Self, ()> = |conn, step| {
            let (work, database) = (step.work.clone(), step.database.clone());
            Box::pin(async move {
                conn.callback(Box::new(move |session| work(database, session))).await?;
                // Last: until the commit, the record is locked for the next holder of the lease.
                step.record.add(conn, step.fence, step.name).await
            })
        };
        transaction::run(catalog, retry, &mut Conn::new(), self, body).await
    }
}

fn already_running() -> Error {
    Error::new(
        ErrorKind::Contention,
        "another instance is running the steps, and did not finish within max_wait(..), nothing was run: call it again later, or set a longer time",
    )
}
