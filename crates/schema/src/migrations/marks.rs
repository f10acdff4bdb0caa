//! Changes of the record by an operator.

use std::time::Duration;

use mongo_patterns_core::action::{self, ActionFuture, Call};
use mongo_patterns_core::lease::{HeldLease, Lease};
use mongo_patterns_core::{Error, ErrorKind, Result};
use tokio::time::{Instant, timeout};

use super::record::Record;
use super::run::RELEASED_WITHIN;
use super::{Migrations, NAME};

impl Migrations {
    /// Records that a step was applied by hand, and who did it, so that no instance runs it.
    ///
    /// Returns `false`, with nothing changed, if it is recorded already. The list of steps of this value does not matter.
    ///
    /// ```no_run
    /// # use mongo_patterns::schema::Migrations;
    /// # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
    /// Migrations::new(&database).mark("2026-11-25 email index", "ann").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It acquires the lease of the list, so no instance runs a step at the same time.
    ///
    /// # Cost
    /// Four round trips.
    ///
    /// # Cancel safety
    /// The step is recorded or not, and the lease ends after its time to live. Call it again.
    ///
    /// # Errors
    /// - [`Contention`](ErrorKind::Contention): an instance runs steps for longer than [`max_wait`](Self::max_wait) allows.
    pub fn mark(&self, step: impl Into<String>, by: impl Into<String>) -> ActionFuture<'_, bool> {
        self.change("mark", step.into(), by.into(), true)
    }

    /// Removes a step from the record, so that the next instance runs it again, and records who did it.
    ///
    /// Returns `false`, with nothing changed, if it is not recorded.
    ///
    /// ```no_run
    /// # use mongo_patterns::schema::Migrations;
    /// # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
    /// Migrations::new(&database).unmark("2026-11-25 email index", "ann").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// As [`mark`](Self::mark).
    ///
    /// # Cancel safety
    /// As [`mark`](Self::mark).
    ///
    /// # Errors
    /// - The errors of [`mark`](Self::mark).
    pub fn unmark(&self, step: impl Into<String>, by: impl Into<String>) -> ActionFuture<'_, bool> {
        self.change("unmark", step.into(), by.into(), false)
    }

    /// Ends the lease of an instance that is gone, so that the next one begins at once, and records who did it. Returns
    /// whether an instance had the lease.
    ///
    /// An instance that still runs loses the lease: its step is dropped, and the server may execute its last command.
    ///
    /// # Cost
    /// One round trip.
    ///
    /// # Cancel safety
    /// The lease has ended or not.
    pub fn release_lease(&self, by: impl Into<String>) -> ActionFuture<'_, bool> {
        let (record, by) = (self.record(), by.into());
        Box::pin(async move {
            let call = Call::new(NAME, "release_lease", &record.catalog);
            action::run(call, self.lease().release_by(&by)).await
        })
    }

    fn change(&self, operation: &'static str, step: String, by: String, is_applied: bool) -> ActionFuture<'_, bool> {
        let record = self.record();
        Box::pin(async move {
            let call = Call::new(NAME, operation, &record.catalog);
            action::run(call, self.change_in(&record, &step, &by, is_applied)).await
        })
    }

    async fn change_in(&self, record: &Record, step: &str, by: &str, is_applied: bool) -> Result<bool> {
        let held = self.hold(&self.lease()).await?;
        let fence = held.fence();
        let change = async {
            let mut applied = record.claim(fence).await?.into_iter();
            if applied.any(|applied| applied.name == step) == is_applied {
                return Ok(false);
            }
            match is_applied {
                true => record.mark(fence, step, by).await?,
                false => record.unmark(fence, step, by).await?,
            }
            Ok(true)
        };
        let changed = change.await;
        drop(timeout(RELEASED_WITHIN, held.release()).await);
        changed
    }

    /// Acquires the lease, and waits for an instance that has it.
    async fn hold(&self, lease: &Lease) -> Result<HeldLease> {
        let started = Instant::now();
        loop {
            if let Some(held) = lease.attempt().await? {
                return Ok(held);
            }
            let left = self.max_wait.map(|wait| wait.saturating_sub(started.elapsed()));
            if left == Some(Duration::ZERO) {
                return Err(Error::new(
                    ErrorKind::Contention,
                    "an instance is running steps, nothing was changed: wait for its end, or release its lease if the instance is gone",
                ));
            }
            let _ = timeout(left.unwrap_or(Duration::MAX), lease.pause()).await;
        }
    }
}
