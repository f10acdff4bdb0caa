//! One database per test.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use mongodb::error::ErrorKind;
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection, Database};

use crate::process::POLL;
use crate::{CommandRecorder, Server, server};

/// The interval at which the clients check the server's state: the shortest that the driver allows. A test of an error that
/// reports another primary takes one interval, which is 10 seconds by default.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// The server's error code while another command drops the database.
const DROP_PENDING: i32 = 215;
/// How long the drop of a database is repeated.
const DROPPED_WITHIN: Duration = Duration::from_secs(30);

/// A database for one test, with its own clients.
///
/// ```no_run
/// # use mongo_patterns_testkit::{self as testkit, TestDatabase};
/// # use mongodb::bson::{Document, doc};
/// async fn prepare(db: &TestDatabase) {
///     // Through the client that is not recorded, because the test counts only its own commands.
///     db.plain_collection::<Document>("trades").insert_one(doc! { "ticker": "MDB" }).await.unwrap();
/// }
///
/// # async fn my_test() {
/// testkit::run(async |db| {
///     prepare(db).await;
///     let trades = db.collection::<Document>("trades");
///     assert_eq!(trades.count_documents(doc! {}).await.unwrap(), 1);
///     assert_eq!(db.recorder().names(), ["aggregate"]);
/// })
/// .await;
/// # }
/// ```
#[derive(Debug)]
pub struct TestDatabase {
    server: &'static Server,
    recorder: CommandRecorder,
    database: Database,
    plain: Client,
}

/// The result of a test: `()`, or a `Result` whose error is a failure.
///
/// ```no_run
/// # use mongo_patterns_testkit as testkit;
/// # use mongodb::bson::doc;
/// # async fn my_test() -> mongodb::error::Result<()> {
/// // An error fails the test, and its database is kept.
/// testkit::run(async |db| {
///     db.database().run_command(doc! { "ping": 1 }).await?;
///     Ok(())
/// })
/// .await
/// # }
/// ```
pub trait Outcome {
    /// Returns whether the test failed.
    fn is_failure(&self) -> bool;
}

impl Outcome for () {
    fn is_failure(&self) -> bool {
        false
    }
}

impl<T, E> Outcome for Result<T, E> {
    fn is_failure(&self) -> bool {
        self.is_err()
    }
}

/// Runs a test with its own database.
///
/// It drops the database when the test succeeds. When the test fails, it keeps the database and prints its name.
///
/// ```no_run
/// # use mongo_patterns_testkit as testkit;
/// # use mongodb::bson::doc;
/// # async fn my_test() {
/// testkit::run(async |db| {
///     db.database().run_command(doc! { "ping": 1 }).await.unwrap();
/// })
/// .await;
/// # }
/// ```
///
/// # Panics
/// If no server is available, with what was tried and what to do. If the test panics.
pub async fn run<T: Outcome>(test: impl AsyncFnOnce(&TestDatabase) -> T) -> T {
    let db = TestDatabase::create().await;
    // Boxed, so that the compiler generates the rest once, and not for each test.
    db.end_after(Box::pin(test(&db))).await
}

impl TestDatabase {
    /// Drops the database. The driver does not retry this command, although it is idempotent. It closes its connections when
    /// a test has blocked the thread of its monitor, for example while it waited for a process. The first attempt may still
    /// run then.
    async fn drop_database(&self) -> mongodb::error::Result<()> {
        let database = self.plain.database(self.database.name());
        let started = Instant::now();
        loop {
            match database.drop().await {
                Err(error) if is_passing(&error) && started.elapsed() < DROPPED_WITHIN => {
                    tokio::time::sleep(POLL).await;
                }
                dropped => return dropped,
            }
        }
    }

    /// Runs the test, and drops the database or tells its name.
    async fn end_after<T: Outcome>(&self, test: LocalBoxFuture<'_, T>) -> T {
        let outcome = AssertUnwindSafe(test).catch_unwind().await;
        if outcome.as_ref().is_ok_and(|outcome| !outcome.is_failure()) {
            if let Err(error) = self.drop_database().await {
                panic!("the test succeeded, but its database could not be dropped: {error}");
            }
        } else {
            eprintln!(
                "the test's database is kept: {} on {}",
                self.database.name(),
                self.server_text()
            );
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    async fn create() -> Self {
        let server = server().await.unwrap_or_else(|error| panic!("{error}"));
        let name = unique_name();
        let recorder = CommandRecorder::new();
        let mut options = client_options(server).await;
        options.heartbeat_freq = Some(HEARTBEAT);
        let plain = Client::with_options(options.clone()).expect("options from a connection string");
        options.app_name = Some(name.clone());
        recorder.attach(&mut options);
        let client = Client::with_options(options).expect("options from a connection string");
        Self {
            server,
            recorder,
            database: client.database(&name),
            plain,
        }
    }

    /// Returns the server.
    pub fn server(&self) -> &'static Server {
        self.server
    }

    /// Returns the database, through the recorded client.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the recorded client, which fail points affect.
    pub fn client(&self) -> &Client {
        self.database.client()
    }

    /// Returns a client that is not recorded and that no fail point affects, to prepare and inspect data.
    pub fn plain_client(&self) -> &Client {
        &self.plain
    }

    /// Returns a collection, through the recorded client.
    pub fn collection<T: Send + Sync>(&self, name: &str) -> Collection<T> {
        self.database.collection(name)
    }

    /// Returns a collection, through the client that is not recorded.
    pub fn plain_collection<T: Send + Sync>(&self, name: &str) -> Collection<T> {
        self.plain.database(self.database.name()).collection(name)
    }

    /// Returns the recorder of the client's commands.
    pub fn recorder(&self) -> &CommandRecorder {
        &self.recorder
    }

    /// Returns the application name of the client.
    pub fn app_name(&self) -> &str {
        self.database.name()
    }

    fn server_text(&self) -> String {
        if self.server.is_own() {
            "the server of this process, which ends with it (set MONGODB_URI to inspect the database afterwards)"
                .to_owned()
        } else {
            "the server at MONGODB_URI".to_owned()
        }
    }
}

/// Returns whether a drop of a database succeeds later.
fn is_passing(error: &mongodb::error::Error) -> bool {
    match &*error.kind {
        ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. } => true,
        ErrorKind::Command(refused) => refused.code == DROP_PENDING,
        _ => false,
    }
}

async fn client_options(server: &Server) -> ClientOptions {
    match server.client_options().await {
        Ok(options) => options,
        Err(error) => panic!("MONGODB_URI: {}", error.kind),
    }
}

/// Returns the test's name, shortened, with a suffix that is unique among all runs. A database name has at most 63
/// bytes.
fn unique_name() -> String {
    static COUNTER: AtomicU16 = AtomicU16::new(0);
    let thread = std::thread::current();
    let test = thread
        .name()
        .and_then(|path| path.rsplit("::").next())
        .unwrap_or("main");
    let short: String = test
        .chars()
        .filter(|character| character.is_ascii_alphanumeric() || *character == '_')
        .take(30)
        .collect();
    let micros = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_micros());
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!(
        "test_{short}_{:x}_{:x}_{count:x}",
        micros & 0xff_ffff_ffff,
        std::process::id()
    )
}
