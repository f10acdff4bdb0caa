//! Faults on demand.

use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use tokio::sync::{Mutex, MutexGuard};

use crate::{TestDatabase, switch};

/// A server has one `failCommand`, so one test of a process has it at a time.
static IN_USE: Mutex<()> = Mutex::const_new(());

/// Whoever has it has the fail point.
pub(crate) type InUse = MutexGuard<'static, ()>;

pub(crate) async fn lock() -> InUse {
    IN_USE.lock().await
}

/// How often it was entered before, from the server's reply to setting it.
pub(crate) fn entered(reply: &Document) -> i64 {
    match reply.get("count") {
        Some(Bson::Int32(count)) => i64::from(*count),
        Some(Bson::Int64(count)) => *count,
        _ => 0,
    }
}

/// Waits on the server until it was entered once more.
pub(crate) async fn met(db: &TestDatabase, entered: i64, within: Duration) -> bool {
    let wait = doc! {
        "waitForFailPoint": "failCommand",
        "timesEntered": entered + 1,
        "maxTimeMS": i64::try_from(within.as_millis()).unwrap_or(i64::MAX),
    };
    db.plain_client().database("admin").run_command(wait).await.is_ok()
}

/// A fault that the server makes when the client of one [`TestDatabase`] sends certain commands: the fail point
/// `failCommand`, for servers that were started with `enableTestCommands=1`.
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

/// Switches the fail point off when it is dropped.
///
/// ```no_run
/// # use mongo_patterns_testkit::{FailPoint, TestDatabase};
/// # async fn f(db: &TestDatabase) {
/// let fault = FailPoint::on(&["update"]).times(1).close_connection().enable(db).await;
/// // the calls that meet it
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
    /// A fault on these commands, such as `update`: always, until [`times`](Self::times) or [`skip`](Self::skip).
    pub fn on(commands: &[&str]) -> Self {
        Self {
            mode: "alwaysOn".into(),
            data: doc! { "failCommands": commands },
        }
    }

    /// For the next so many commands.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.mode = doc! { "times": i64::from(times) }.into();
        self
    }

    /// For all but the next so many commands.
    #[must_use]
    pub fn skip(mut self, commands: u32) -> Self {
        self.mode = doc! { "skip": i64::from(commands) }.into();
        self
    }

    /// The server closes the connection and does not run the command.
    #[must_use]
    pub fn close_connection(self) -> Self {
        self.with("closeConnection", true)
    }

    /// The server does not run the command and answers with this error code.
    #[must_use]
    pub fn error_code(self, code: i32) -> Self {
        self.with("errorCode", code)
    }

    /// The labels of that error.
    #[must_use]
    pub fn error_labels(self, labels: &[&str]) -> Self {
        self.with("errorLabels", labels)
    }

    /// The server runs the command and then reports that the write concern was not met, with this code.
    #[must_use]
    pub fn write_concern_error(self, code: i32) -> Self {
        self.with("writeConcernError", doc! { "code": code, "errmsg": "fail point" })
    }

    /// The server waits for so long before it runs the command.
    #[must_use]
    pub fn block(self, time: Duration) -> Self {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.with("blockConnection", true).with("blockTimeMS", millis)
    }

    /// Any further field of the fail point's `data`.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<Bson>) -> Self {
        self.data.insert(field, value);
        self
    }

    /// Switches it on, for the client of this database alone, or for the one whose name was given
    /// [as](Self::with) `appName`.
    ///
    /// # Panics
    /// When the server has no fail points: a test that needs one cannot go on, and must not look green.
    pub async fn enable(mut self, db: &TestDatabase) -> FailPointGuard {
        let in_use = lock().await;
        if !self.data.contains_key("appName") {
            self.data.insert("appName", db.app_name());
        }
        let command = doc! { "configureFailPoint": "failCommand", "mode": self.mode, "data": self.data };
        let reply = db.plain_client().database("admin").run_command(command).await;
        let reply = reply.unwrap_or_else(|error| {
            panic!(
                "this test needs fail points: start mongod with --setParameter enableTestCommands=1, as docker-compose.yml does ({error})"
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
    /// Waits until a command has met the fault. False when none did in this time.
    pub async fn met(&self, db: &TestDatabase, within: Duration) -> bool {
        met(db, self.entered, within).await
    }

    /// Switches it off now.
    ///
    /// # Panics
    /// When the server cannot be reached: the fault would go on.
    pub async fn disable(mut self) {
        self.enabled = false;
        if let Err(error) = switch::off() {
            panic!("the fail point could not be switched off: {error}");
        }
    }
}

impl Drop for FailPointGuard {
    fn drop(&mut self) {
        if self.enabled
            && let Err(error) = switch::off()
        {
            eprintln!("the fail point could not be switched off: {error}");
        }
    }
}
