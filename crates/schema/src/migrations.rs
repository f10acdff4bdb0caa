//! Migrations of a database that run once, by one instance of a service, while the other instances wait.
//!
//! A service starts with several instances at once. If each of them reads which steps are missing, runs them and then writes
//! the record, each step runs in all of them. [`Migrations`] runs each step in one instance:
//!
//! ```no_run
//! use mongo_patterns::schema::Migrations;
//! use mongo_patterns::mongodb::{IndexModel, bson::{Document, doc}};
//!
//! # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
//! let applied = Migrations::new(&database)
//!     .step("2026-11-25 email index", async |database| {
//!         let index = IndexModel::builder().keys(doc! { "email": 1 }).build();
//!         database.collection::<Document>("users").create_index(index).await?;
//!         Ok(())
//!     })
//!     .step_in_transaction("2026-12-01 fee", async |database, session| {
//!         let accounts = database.collection::<Document>("accounts");
//!         accounts.update_many(doc! {}, doc! { "$inc": { "balance": -1 } }).session(session).await?;
//!         Ok(())
//!     })
//!     .run() // at the start of the service, before it serves
//!     .await?;
//! println!("{:?}", applied.steps);
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! The catalog of the database, the collection `mongo_patterns`, has a record of the applied steps. If the record has all
//! steps of the list, a run is one read. Otherwise the instance acquires a [lease](mongo_patterns_core::lease), reads the
//! record again, and runs the missing steps. The other instances wait until the record has all of their steps, or the lease
//! has ended.
//!
//! The holder of a lease writes its fence into the record before it runs a step, and each write of the record has the fence
//! in its filter. So an instance that was paused past the end of its lease cannot record a step after another instance has
//! taken over.
//!
//! # Guarantees
//!
//! With any number of instances, of any number of releases:
//!
//! - Steps run in the order of the list. A step begins after the step before it is recorded.
// proof: schema::order::releases_with_fewer_steps_run_none_of_the_others, schema::concurrent::each_step_runs_in_one_of_many_instances
//! - A step of [`step_in_transaction`](Migrations::step_in_transaction) is applied exactly once.
// proof: schema::processes::a_process_is_killed_in_a_step, schema::concurrent::a_step_that_conflicts_after_its_lease_was_lost_does_not_run_again, schema::concurrent::a_commit_in_flight_when_the_lease_is_lost_counts
//! - A step of [`step`](Migrations::step) is applied at least once, and not again after it is recorded. The database that it
//!   gets has the write concern `majority`, so what it writes there is not rolled back. It runs again if it returns an
//!   error, if its process dies, if its future is dropped, or if the lease is lost before the record.
// proof: schema::processes::a_process_is_killed_in_a_step, schema::steps::a_plain_step_writes_for_a_majority
//! - When [`run`](Migrations::run) returns without an error, all steps of its list are applied.
// proof: schema::failover::a_lease_and_applied_steps_survive_the_primary
//! - When a plain step fails with an unknown outcome, the server may still execute its last command. All instances that wait, or
//!   start before the lease has ended, fail at once with [`Contention`](mongo_patterns_core::ErrorKind::Contention) and the name of
//!   the step. After a step in a transaction, the next instance begins at once, because the fence refuses a late commit.
// proof: schema::concurrent::those_that_wait_see_a_failure_of_unknown_outcome_at_once, schema::concurrent::a_late_record_is_refused_by_its_fence
//! - After a process died, the next one continues when the lease has ended, by default 30 seconds later.
// proof: schema::processes::a_process_is_stopped_past_the_end_of_its_lease
//!
//! After a fault in a plain step, two steps can work at a time. A process that was paused for longer than its lease
//! continues the step until its next renewal. The last command of a process that died, or of a step that was dropped, can
//! run on the server for longer than the lease. See the [limits of a lease](mongo_patterns_core::lease#limits).
//!
//! The transaction of a process that died locks its documents until the server ends it, after 60 to 90 seconds by default. A
//! step that writes them waits as long as its [retry policy](Migrations::retry) allows.
//!
//! # The order of steps
//!
//! New steps are added at the end of the list. A run with pending steps refuses the list, and runs nothing, if
//!
//! - a pending step stands before one that is applied, unless the list [allows it](Migrations::allow_out_of_order), or
//! - the list does not have the last applied step.
//!
//! In a rolling deployment, an instance of the **older release** finds steps that it does not know. It has nothing to run,
//! starts as always, and returns them in [`unknown`](Applied::unknown). So a step must leave the database in a form that the
//! older release can use.
//!
//! Old steps can be deleted from the list, except the last one that is applied everywhere.
//!
//! # Stored form
//!
//! ```json
//! {
//!   "_id": { "kind": "steps", "name": "default" },
//!   "fence": { "$numberLong": "1764110000000" },
//!   "steps": [{ "name": "2026-11-25 email index", "applied": { "$date": "2026-11-25T12:00:00Z" } }]
//! }
//! ```
//!
//! After a failure with an unknown outcome, `failed` has the name of the step, until the next instance begins. The lease of
//! the list has the name `steps/default`. [`mark`](Migrations::mark) records a step that was applied by hand, with `by`, who
//! did it. [`unmark`](Migrations::unmark) lets a step run again: `unmarked` has the last 100 of them, with `by` and the time.

mod marks;
mod order;
mod record;
mod results;
mod run;
mod status;
mod step;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use mongo_patterns_core::lease::Lease;
use mongo_patterns_core::{Result, RetryPolicy, setters};
use mongodb::Database;

use self::record::Record;
use self::step::Step;

pub use self::results::{Applied, AppliedStep, Status};
pub use self::step::TransactionStep;

const NAME: &str = "schema";

/// Steps that change a database, each once, in their order. See the [module](self).
#[must_use = "it does nothing until it is run"]
pub struct Migrations {
    database: Database,
    list: String,
    steps: Vec<Step>,
    time_to_live: Option<Duration>,
    max_wait: Option<Duration>,
    retry: RetryPolicy,
    is_any_order: bool,
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
            is_any_order: false,
        }
    }

    /// Adds a step at the end of the list. It is run **at least once**, so it must be idempotent, as the creation of an
    /// index is, or an update whose filter does not match its result.
    ///
    /// The name identifies the step for ever, and can be any text. Errors of the driver become an [`Error`] by `?`. Make an
    /// error of your own by [`Error::new`].
    ///
    /// ```no_run
    /// # use mongo_patterns::schema::Migrations;
    /// # use mongo_patterns::mongodb::{Database, IndexModel, bson::{Document, doc}};
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

    /// Adds a step at the end of the list that is applied **exactly once**: its writes in the session and the record of the
    /// step are one transaction. All of its commands must be in the session.
    ///
    /// ```no_run
    /// # use mongo_patterns::schema::Migrations;
    /// # use mongo_patterns::mongodb::{Database, bson::{Document, doc}};
    /// # fn f(database: Database) {
    /// let migrations = Migrations::new(&database).step_in_transaction("2026-12-01 fee", async |database, session| {
    ///     let accounts = database.collection::<Document>("accounts");
    ///     accounts.update_many(doc! {}, doc! { "$inc": { "balance": -1 } }).session(&mut *session).await?;
    ///     Ok(())
    /// });
    /// # }
    /// ```
    ///
    /// The closure runs again, as a clone, if the transaction met a conflict with another writer, or a network error. The
    /// transaction is run with a snapshot of the primary, and with the write concern `majority`. The server ends a
    /// transaction after 60 seconds, and creates no collection and no index in one: use a [`step`](Self::step) for these.
    /// Return the error of each command: after one, the transaction cannot continue.
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
        /// Sets the name of the list, `default` by default. Services with steps of their own in one database need different
        /// names.
        list(name: impl Into<String>) => list = name.into();

        /// Sets how long the other instances wait for one that died, from 100 milliseconds to a day; 30 seconds by default.
        /// See [`Lease::time_to_live`].
        time_to_live(time: Duration) => time_to_live = Some(time);

        /// Bounds how long [`run`](Self::run) waits for another instance. By default it waits as long as the other instance
        /// runs. With `Duration::ZERO` it does not wait.
        max_wait(time: Duration) => max_wait = Some(time);

        /// Applies missing steps also if they stand before applied ones. For databases that releases with different lists
        /// have changed: `[a, b]` in one, and `[a, c]` in another.
        ///
        /// A step then runs after later steps of the list: check that it does not depend on the order.
        allow_out_of_order() => is_any_order = true;

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
