//! `status`.

use mongo_patterns_core::Result;
use mongo_patterns_core::action::{self, ActionFuture, Call};

use super::order::{check_names, pending, unknown};
use super::record::Record;
use super::results::Status;
use super::{Migrations, NAME};

impl Migrations {
    /// Returns which steps are applied and which are pending. Writes nothing.
    ///
    /// # Cost
    /// One round trip.
    ///
    /// # Errors
    /// - The errors of [`run`](Self::run) about the list and the record.
    pub fn status(&self) -> ActionFuture<'_, Status> {
        let record = self.record();
        Box::pin(async move {
            let call = Call::new(NAME, "status", &record.catalog);
            action::run(call, self.status_in(&record)).await
        })
    }

    async fn status_in(&self, record: &Record) -> Result<Status> {
        let names = self.names();
        check_names(&names)?;
        let stored = record.read(&self.lease()).await?;
        let pending = pending(&names, &stored.steps, self.is_any_order)?;
        Ok(Status {
            pending: pending.into_iter().map(|at| names[at].to_owned()).collect(),
            unknown: unknown(&names, &stored.steps),
            applied: stored.steps,
            running_since: stored.running_since,
        })
    }
}
