//! The steps of a migration: executed by a run, listed by a plan.

use futures::future::BoxFuture;
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use super::{Chunks, PlannedCommand, Reply, Step, Walk};
use crate::conn::Conn;
use crate::send::Rows;
use crate::{error, measure, send};

type Result<T> = send::Result<T>;

/// A run or a plan of a migration.
#[derive(Debug)]
pub enum Steps<'s, 'c> {
    /// Executes every step.
    Run(Option<&'s mut Conn<'c>>),
    /// Executes what only reads, and lists every step.
    Plan(Vec<PlannedCommand>),
}

impl Steps<'_, '_> {
    /// A run without a session.
    pub fn run() -> Self {
        Self::Run(None)
    }

    /// A plan.
    pub fn plan() -> Self {
        Self::Plan(Vec::new())
    }

    /// Returns whether nothing is written.
    pub fn is_plan(&self) -> bool {
        matches!(self, Self::Plan(_))
    }

    /// Returns whether a failed step ends a transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        matches!(self, Self::Run(Some(conn)) if conn.is_in_transaction())
    }

    /// Lists commands in a plan, which a run sends in another way.
    pub fn list(&mut self, listed: impl IntoIterator<Item = PlannedCommand>) {
        if let Self::Plan(commands) = self {
            commands.extend(listed);
        }
    }

    /// Returns the commands that a plan listed.
    pub fn into_commands(self) -> Vec<PlannedCommand> {
        match self {
            Self::Run(_) => Vec::new(),
            Self::Plan(commands) => commands,
        }
    }

    /// Counts migrated documents. A plan counts none.
    pub fn count_migrated(&self, documents: u64) {
        if !self.is_plan() {
            measure::migrated(documents);
        }
    }

    /// Executes a step that only reads, in a plan too.
    pub fn read(&mut self, step: Step) -> BoxFuture<'_, Result<Reply>> {
        Box::pin(async move {
            match self {
                Self::Run(Some(conn)) => step.execute(conn).await,
                Self::Run(None) => step.execute(&mut Conn::new()).await,
                Self::Plan(commands) => {
                    commands.push(step.planned(false)?);
                    step.execute(&mut Conn::new()).await
                }
            }
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
        match self {
            Self::Run(Some(conn)) => step.execute(conn).await.map(Some),
            Self::Run(None) => step.execute(&mut Conn::new()).await.map(Some),
            Self::Plan(commands) => {
                commands.push(step.planned(writes)?);
                Ok(None)
            }
        }
    }

    /// Executes an aggregation that only reads, in a plan too, without a session, and returns its cursor.
    pub fn stream(&mut self, step: Step) -> BoxFuture<'_, Result<Rows>> {
        Box::pin(async move {
            if let Self::Plan(commands) = self {
                commands.push(step.planned(false)?);
            }
            step.stream().await
        })
    }

    /// Executes an aggregation that reads what earlier steps wrote, without a session, and returns its cursor. `None` in a
    /// plan, which only lists it.
    pub fn stream_written(&mut self, step: Step) -> BoxFuture<'_, Result<Option<Rows>>> {
        Box::pin(async move {
            match self {
                Self::Run(_) => step.stream().await.map(Some),
                Self::Plan(commands) => {
                    commands.push(step.planned(false)?);
                    Ok(None)
                }
            }
        })
    }

    /// Begins to walk through a collection, in a plan too.
    pub fn chunks<'a>(
        &'a mut self,
        purpose: &'static str,
        walk: Walk,
        collection: &'a Collection<RawDocumentBuf>,
    ) -> BoxFuture<'a, error::Result<Chunks>> {
        Box::pin(async move {
            if let Self::Plan(commands) = self {
                commands.push(PlannedCommand::read(purpose, walk.find_command(collection.name())?));
            }
            walk.begin(collection).await
        })
    }
}
