//! The list of migrations: its construction and its calls.

mod run;
mod status;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use mongo_patterns_core::lease::Lease;
use mongo_patterns_core::{Result, RetryPolicy, setters};
use mongodb::Database;

use crate::record::Record;
use crate::step::{Step, TransactionStep};

const NAME: &str = "schema";

/// Steps that change a database, each of which is applied once, in their order.
///
/// See the [crate](crate) for what an instance of a service does with them when it starts.
#[must_use = "it does nothing until it is run"]
pub struct Migrations {
    database: Database,
    list: String,
    steps: Vec<Step>,
    time_to_live: Option<Duration>,
    max_wait: Option<Duration>,
    retry: RetryPolicy,
}

impl Migrations {
    /// Creates an empty list for a database. Sends nothing.
    pub fn new(database: &Database) -> Self {
        Self {
            database: database.clone(),
            list: "default".to_owned(),
            steps: Vec::new(),
            time_to_live: None,
            max_wait: None,
            retry: RetryPolicy::default(),
        }
    }

    /// Adds a step at the end of the list. It is run **at least once**: a process that dies after its last command and
    /// before the record of the step leaves it to the next one. So it must be idempotent, as the creation of an index is,
    /// or an update whose filter does not match what it has updated.
    ///
    /// The name identifies the step for ever, and can be any text. Errors of the driver become an [`Error`] by `?`; make
    /// one of another error by [`Error::new`].
    ///
    /// ```no_run
    /// # use mongo_patterns_schema::Migrations;
    /// # use mongodb::{Database, IndexModel, bson::{Document, doc}};
    /// # fn f(database: Database) {
    /// let migrations = Migrations::new(&database).step("2026-11-25 email index", async |database| {
    ///     let index = IndexModel::builder().keys(doc! { "email": 1 }).build();
    ///     database.collection::<Document>("users").create_index(index).await?;
    ///     Ok(())
    /// });
    /// # }
    /// ```
    ///
    /// [`Error`]: mongo_patterns_core::Error
    /// [`Error::new`]: mongo_patterns_core::Error::new
    pub fn step<F, R>(mut self, name: impl Into<String>, work: F) -> Self
    where
        F: FnOnce(Database) -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.steps.push(Step::plain(name.into(), work));
        self
    }

    /// Adds a step at the end of the list that is applied **exactly once**: what it writes in the session and the record of
    /// the step are one transaction. All of its commands must be in the session.
    ///
    /// ```no_run
    /// # use mongo_patterns_schema::Migrations;
    /// # use mongodb::{Database, bson::{Document, doc}};
    /// # fn f(database: Database) {
    /// let migrations = Migrations::new(&database).step_in_transaction("2026-12-01 fee", async |database, session| {
    ///     let accounts = database.collection::<Document>("accounts");
    ///     accounts.update_many(doc! {}, doc! { "$inc": { "balance": -1 } }).session(&mut *session).await?;
    ///     Ok(())
    /// });
    /// # }
    /// ```
    ///
    /// The closure runs again if the transaction met a conflict with another writer, or a network error; it is cloned for
    /// that. The transaction is run with a snapshot of the primary, and with the write concern `majority`. The server ends
    /// one that takes longer than 60 seconds, and creates no index of an existing collection in one: use a
    /// [`step`](Self::step) for these.
    ///
    /// Needs a replica set or a sharded cluster.
    pub fn step_in_transaction<F>(mut self, name: impl Into<String>, work: F) -> Self
    where
        F: for<'s> AsyncFnOnce(Database, &'s mut mongodb::ClientSession) -> Result<()>, // for the types of a closure
        F: for<'s> TransactionStep<'s> + Clone + Send + Sync + 'static,
    {
        self.steps.push(Step::in_transaction(name.into(), work));
        self
    }

    setters! {
        /// Sets the name of the list, `default` by default. Services that share a database and have steps of their own need
        /// one each.
        list(name: impl Into<String>) => list = name.into();

        /// Sets how long the other instances wait for one that died, from 100 milliseconds to a day; 30 seconds by default.
        /// See [`Lease::time_to_live`].
        time_to_live(time: Duration) => time_to_live = Some(time);

        /// Bounds how long [`run`](Self::run) waits for another instance. By default it waits as long as the other one
        /// runs. With `Duration::ZERO` it does not wait.
        max_wait(time: Duration) => max_wait = Some(time);

        /// Sets how a step in a transaction retries after conflicts with other writers and network errors.
        retry(policy: RetryPolicy) => retry = policy;
    }

    fn record(&self) -> Record {
        Record::of(&self.database, &self.list)
    }

    fn lease(&self) -> Lease {
        let lease = Lease::new(&self.database, format!("steps/{}", self.list));
        match self.time_to_live {
            Some(time) => lease.time_to_live(time),
            None => lease,
        }
    }

    fn names(&self) -> Vec<&str> {
        self.steps.iter().map(|step| step.name.as_str()).collect()
    }
}

impl fmt::Debug for Migrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Migrations")
            .field("list", &self.list)
            .field("steps", &self.names())
            .finish_non_exhaustive()
    }
}
