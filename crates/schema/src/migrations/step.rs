//! One step of a list of migrations.

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use mongo_patterns_core::Result;
use mongodb::{ClientSession, Database};

pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) work: Work,
}

pub(crate) enum Work {
    Plain(Plain),
    InTransaction(InTransaction),
}

type Plain = Box<dyn FnOnce(Database) -> BoxFuture<'static, Result<()>> + Send + Sync>;
/// It runs again after a conflict with another writer.
pub(crate) type InTransaction =
    Arc<dyn for<'s> Fn(Database, &'s mut ClientSession) -> BoxFuture<'s, Result<()>> + Send + Sync>;

impl Step {
    pub(crate) fn plain<F, R>(name: String, work: F) -> Self
    where
        F: FnOnce(Database) -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        let work = Work::Plain(Box::new(move |database| Box::pin(work(database))));
        Self { name, work }
    }

    pub(crate) fn in_transaction<F>(name: String, work: F) -> Self
    where
        F: for<'s> TransactionStep<'s> + Clone + Send + Sync + 'static,
    {
        let work = Work::InTransaction(Arc::new(move |database, session| {
            Box::pin(work.clone()(database, session))
        }));
        Self { name, work }
    }
}

/// What [`step_in_transaction`](crate::Migrations::step_in_transaction) takes: an async closure or an async function whose
/// future is `Send`.
pub trait TransactionStep<'s>: FnOnce(Database, &'s mut ClientSession) -> Self::Running {
    /// Its future.
    type Running: Future<Output = Result<()>> + Send + 's;
}

impl<'s, F, R> TransactionStep<'s> for F
where
    F: FnOnce(Database, &'s mut ClientSession) -> R,
    R: Future<Output = Result<()>> + Send + 's,
{
    type Running = R;
}
