//! Fail points for the client of one test.

use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};

use crate::TestDatabase;
use crate::switch::{self, InUse, entered, lock};

/// Waits on the server until the fail point is entered once more.
pub(crate) async fn met(db: &TestDatabase, entered: i64, within: Duration) -> bool {
    let wait = doc! {
        "waitForFailPoint": "failCommand",
        "timesEntered": entered + 1,
        "maxTimeMS": i64::try_from(within.as_millis()).unwrap_or(i64::MAX),
    };
    db.plain_client().database("admin").run_command(wait).await.is_ok()
}

/// The fail point `failCommand` for the commands of one [`TestDatabase`]'s client. The server must run with
/// `enableTestCommands=1`.
///
/// ```
/// use mongo_patterns_testkit as testkit;
/// use mongodb::bson::{Document, doc};
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// testkit::run(async |db| {
///     let fault = testkit::FailPoint::on(&["insert"]).times(2).close_connection().enable(db).await;
///     let insert = db.collection::<Document>("c").insert_one(doc! {}).await;
///     assert!(insert.is_err(), "the first attempt and the driver's one retry both fail");
///     fault.disable().await;
/// })
/// .await;
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct FailPoint {
    pub(crate) mode: Bson,
    pub(crate) data: Document,
}

/// Disables the fail point when it is dropped.
///
/// ```no_run
/// # use mongo_patterns_testkit::{FailPoint, TestDatabase};
/// # async fn f(db: &TestDatabase) {
/// let fault = FailPoint::on(&["update"]).times(1).close_connection().enable(db).await;
/// // calls that hit the fault
/// fault.disable().await; // or when it is dropped
/// # }
/// ```
#[derive(Debug)]
pub struct FailPointGuard {
    enabled: bool,
    entered: i64,
    _in_use: InUse,
}

impl FailPoint {
    /// Creates a fail point for these commands, such as `update`. It stays enabled unless [`times`](Self::times) or
    /// [`skip`](Self::skip) limits it.
    pub fn on(commands: &[&str]) -> Self {
        Self {
            mode: "alwaysOn".into(),
            data: doc! { "failCommands": commands },
        }
    }

    /// Limits the fault to the next `times` commands. It replaces [`skip`](Self::skip): the server does one of both.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.mode = doc! { "times": i64::from(times) }.into();
        self
    }

    /// Skips the next `commands` commands. It replaces [`times`](Self::times): the fault stays enabled then, and
    /// [`plan`](Self::plan) is for a fault at one later command.
    #[must_use]
    pub fn skip(mut self, commands: u32) -> Self {
        self.mode = doc! { "skip": i64::from(commands) }.into();
        self
    }

    /// Closes the connection instead of running the command.
    #[must_use]
    pub fn close_connection(self) -> Self {
        self.with("closeConnection", true)
    }

    /// Returns this error code instead of running the command.
    #[must_use]
    pub fn error_code(self, code: i32) -> Self {
        self.with("errorCode", code)
    }

    /// Sets the labels of the error.
    #[must_use]
    pub fn error_labels(self, labels: &[&str]) -> Self {
        self.with("errorLabels", labels)
    }

    /// Runs the command, and then reports a write concern error with this code.
    #[must_use]
    pub fn write_concern_error(self, code: i32) -> Self {
        self.with("writeConcernError", doc! { "code": code, "errmsg": "fail point" })
    }

    /// Blocks the command for this time before the server runs it.
    #[must_use]
    pub fn block(self, time: Duration) -> Self {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.with("blockConnection", true).with("blockTimeMS", millis)
    }

    /// Sets any further field of the fail point's `data`.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Bson>) -> Self {
        self.data.insert(field, value);
        self
    }

    /// Enables the fail point for the client of this database, or for the client whose application name
    /// [`with`](Self::with) sets as `appName`.
    ///
    /// # Panics
    /// If the server has no fail points: a test that needs one must fail and not be skipped.
    pub async fn enable(mut self, db: &TestDatabase) -> FailPointGuard {
        let in_use = lock().await;
        if !self.data.contains_key("appName") {
            self.data.insert("appName", db.app_name());
        }
        let command = doc! { "configureFailPoint": "failCommand", "mode": self.mode, "data": self.data };
        let reply = db.plain_client().database("admin").run_command(command).await;
        let reply = reply.unwrap_or_else(|error| {
            panic!(
                "this test needs fail points: run mongod with --setParameter enableTestCommands=1, as docker-compose.yml does ({error})"
            )
        });
        FailPointGuard {
            enabled: true,
            entered: entered(&reply),
            _in_use: in_use,
        }
    }
}

impl FailPointGuard {
    /// Waits until a command has hit the fault. Returns `false` if none did in this time.
    pub async fn met(&self, db: &TestDatabase, within: Duration) -> bool {
        met(db, self.entered, within).await
    }

    /// Disables the fail point now.
    ///
    /// # Panics
    /// If the server cannot be reached, because the fault would stay enabled.
    pub async fn disable(mut self) {
        self.enabled = false;
        if let Err(error) = switch::off() {
            panic!("the fail point could not be disabled: {error}");
        }
    }
}

impl Drop for FailPointGuard {
    fn drop(&mut self) {
        if self.enabled
            && let Err(error) = switch::off()
        {
            eprintln!("the fail point could not be disabled: {error}");
        }
    }
}
