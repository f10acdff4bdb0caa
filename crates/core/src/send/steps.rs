//! How steps run: executed, or listed by a plan.

use futures::future::BoxFuture;

use super::{Reply, Rows, Step};
use crate::conn::Conn;

type Result<T> = super::Result<T>;

impl Conn<'_> {
    /// Executes a step that only reads, in a plan too.
    pub fn read(&mut self, step: Step) -> BoxFuture<'_, Result<Reply>> {
        Box::pin(async move {
            self.list_step(&step, false)?;
            step.execute(self).await
        })
    }

    /// Executes a step that writes. `None` in a plan, which only lists it.
    pub fn write(&mut self, step: Step) -> BoxFuture<'_, Result<Option<Reply>>> {
        Box::pin(self.run_or_list(step, true))
    }

    /// Executes a step that reads what earlier steps wrote. `None` in a plan, which only lists it.
    pub fn read_written(&mut self, step: Step) -> BoxFuture<'_, Result<Option<Reply>>> {
        Box::pin(self.run_or_list(step, false))
    }

    async fn run_or_list(&mut self, step: Step, writes: bool) -> Result<Option<Reply>> {
        self.list_step(&step, writes)?;
        match self.is_plan() {
            true => Ok(None),
            false => step.execute(self).await.map(Some),
        }
    }

    /// Executes an aggregation that only reads, in a plan too, without a session, and returns its cursor.
    pub fn stream(&mut self, step: Step) -> BoxFuture<'_, Result<Rows>> {
        Box::pin(async move {
            self.list_step(&step, false)?;
            step.stream().await
        })
    }

    /// Executes an aggregation that reads what earlier steps wrote, without a session, and returns its cursor. `None` in a
    /// plan.
    pub fn stream_written(&mut self, step: Step) -> BoxFuture<'_, Result<Option<Rows>>> {
        Box::pin(async move {
            self.list_step(&step, false)?;
            match self.is_plan() {
                true => Ok(None),
                false => step.stream().await.map(Some),
            }
        })
    }

    fn list_step(&mut self, step: &Step, writes: bool) -> Result<()> {
        if self.is_plan() {
            self.list([step.planned(writes)?]);
        }
        Ok(())
    }
}
