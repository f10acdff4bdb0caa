//! The setup of a run: the writers and readers of each pattern, a follower and migrations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mongo_patterns::subset::Followed;
use mongo_patterns::{Error, ErrorKind, Repository};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{ClientOptions, WriteConcern};
use mongodb::{Client, Database};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::bucket::{Judged, Ledger, Level};
use super::calls::Load;
use super::embedded::Addresses;
use super::history_changes::Changes;
use super::outlier::Sales;
use super::references::References;
use super::subset::Reviews;
use super::{flat, subset};
use support::common::pause;

/// How long the last calls may take after the load has stopped.
const LAST_CALLS: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub struct Stage {
    pub database: Database,
    pub load: Arc<Load>,
    pub ledgers: [Arc<Ledger>; 2],
    sales: [Arc<Sales>; 2],
    addresses: Arc<Addresses>,
    changes: Arc<Changes>,
    references: Arc<References>,
    reviews: Arc<Reviews>,
    tasks: Vec<JoinHandle<()>>,
    migrator: JoinHandle<(u64, u64)>,
    follower: Follower,
}

/// The stored data at the end.
#[derive(Debug)]
pub struct Stored {
    /// For each kind: the numbers of acknowledged, unknown, and unknown but stored items.
    pub by_kind: Vec<(&'static str, (usize, usize, usize))>,
    /// The number of reviews of repositories.
    pub reviews: usize,
    /// The number of changes that the follower read, if the server supports followers.
    pub followed: Option<u64>,
    /// The number of migrations, and how many of them took several calls.
    pub migrations: (u64, u64),
}

/// A follower of the reviews of a program that writes without a repository.
#[derive(Debug)]
struct Follower {
    database: Database,
    task: JoinHandle<Result<Followed, Error>>,
    reached: watch::Receiver<Followed>,
    stop: watch::Sender<bool>,
    /// Whether the server supports it.
    has_begun: bool,
}

/// Returns a database by a client of its own, like that of another process.
pub async fn other_client(uri: &str, name: &str) -> Database {
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.write_concern = Some(WriteConcern::majority());
    // A node that does not answer is detected within seconds.
    options.connect_timeout = Some(Duration::from_secs(2));
    options.heartbeat_freq = Some(Duration::from_secs(1));
    options.server_selection_timeout = Some(Duration::from_secs(5));
    Client::with_options(options).unwrap().database(name)
}

/// Runs a command on the primary, when there is one.
pub async fn ask(database: &Database, command: Document) -> Document {
    let answer = async {
        loop {
            if let Ok(answer) = database.run_command(command.clone()).await {
                return answer;
            }
        }
    };
    timeout(LAST_CALLS, answer).await.expect("no primary responds")
}

impl Stage {
    /// Creates the indexes, and starts all tasks.
    pub async fn start(uri: &str) -> Self {
        let database = other_client(uri, "test").await;
        let load = Load::new();
        let mut tasks: Vec<JoinHandle<()>> = Vec::new();

        let ledgers = [Ledger::new("trades", false, &load), Ledger::new("orders", true, &load)];
        for ledger in &ledgers {
            let trades = ledger.repository(&database, Level::Default);
            trades.ensure_indexes().await.unwrap();
            for _ in 0..2 {
                tasks.push(tokio::spawn(Arc::clone(ledger).write(trades.clone())));
            }
            let other = other_client(uri, "test").await;
            for level in Level::ALL {
                let reader_database = if level == Level::Default { &database } else { &other };
                let (ledger, trades) = (Arc::clone(ledger), ledger.repository(reader_database, level));
                tasks.push(match level {
                    Level::Session => tokio::spawn(ledger.read_in_sessions(trades)),
                    _ => tokio::spawn(ledger.read(trades, level)),
                });
            }
        }
        let sales = [Sales::new(false, &load), Sales::new(true, &load)];
        for sales in &sales {
            let books = sales.repository(&other_client(uri, "test").await);
            books.ensure_indexes().await.unwrap();
            for _ in 0..2 {
                tasks.push(tokio::spawn(Arc::clone(sales).write(books.clone())));
            }
        }
        let addresses = Addresses::new(&load);
        for _ in 0..2 {
            let patrons = addresses.repository(&database);
            tasks.push(tokio::spawn(Arc::clone(&addresses).write(patrons)));
        }
        let changes = Changes::new(&load);
        for _ in 0..2 {
            let policies = Changes::repository(&other_client(uri, "test").await);
            policies.ensure_indexes().await.unwrap();
            for _ in 0..2 {
                tasks.push(tokio::spawn(Arc::clone(&changes).write(policies.clone())));
            }
        }
        let references = References::new(&load);
        let orders = References::prepare(&database).await;
        let other = References::repository(&other_client(uri, "test").await);
        for orders in [orders.clone(), orders, other] {
            tasks.push(tokio::spawn(Arc::clone(&references).write(orders)));
        }
        let reviews = Reviews::new(&load);
        subset::prepare(&database).await;
        for _ in 0..2 {
            let products = subset::repository(&other_client(uri, "test").await);
            tasks.push(tokio::spawn(Arc::clone(&reviews).write(products)));
        }
        let reader = other_client(uri, "test").await;
        tasks.push(tokio::spawn(subset::read_snapshots(Arc::clone(&load), reader)));
        let database_of_migrations = other_client(uri, "test").await;
        let migrator = tokio::spawn(flat::migrate_repeatedly(Arc::clone(&load), database_of_migrations));
        let follower = Follower::start(uri).await;
        let past = subset::write_without_repository(Arc::clone(&load), follower.database.clone());
        tasks.push(tokio::spawn(past));
        Self {
            database,
            load,
            ledgers,
            sales,
            addresses,
            changes,
            references,
            reviews,
            tasks,
            migrator,
            follower,
        }
    }

    /// Stops the load, waits until all calls have ended and the servers are `settled`, and compares the stored data with
    /// the outcomes of the calls.
    pub async fn judge(self, settled: impl AsyncFnOnce(&Ledger, &Database)) -> (Stored, BTreeMap<Level, Judged>) {
        self.load.stop();
        let end = async {
            for task in self.tasks {
                task.await.unwrap();
            }
            self.migrator.await.unwrap()
        };
        let migrations = timeout(LAST_CALLS, end).await.expect("a call does not end");
        settled(&self.ledgers[0], &self.database).await;

        let followed = self.follower.judge().await;
        let mut by_kind = Vec::new();
        let mut levels: BTreeMap<Level, Judged> = BTreeMap::new();
        for (ledger, what) in self.ledgers.iter().zip(["bucket items", "bucket items with ids"]) {
            let (counts, judged) = ledger.judge(&ledger.repository(&self.database, Level::Default)).await;
            by_kind.push((what, counts));
            for (level, judged) in judged {
                levels.entry(level).or_default().add(judged);
            }
        }
        for (sales, what) in self.sales.iter().zip(["outlier elements", "outlier elements, unique"]) {
            by_kind.push((what, sales.judge(&sales.repository(&self.database)).await));
        }
        let patrons = self.addresses.repository(&self.database);
        by_kind.push(("embedded children", self.addresses.judge(&patrons).await));
        by_kind.push(("history changes", self.changes.judge(&self.database).await));
        by_kind.extend(self.references.judge(&self.database).await);
        let reviews = self.reviews.judge(&self.database).await;
        let stored = Stored {
            by_kind,
            reviews,
            followed,
            migrations,
        };
        (stored, levels)
    }
}

impl Follower {
    async fn start(uri: &str) -> Self {
        let database = other_client(uri, "past").await;
        subset::prepare(&database).await;
        let (at, mut reached) = watch::channel(Followed::default());
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(subset::follow(other_client(uri, "past").await, at, stopped));
        let has_begun = reached.changed().await.is_ok();
        Self {
            database,
            task,
            reached,
            stop,
            has_begun,
        }
    }

    /// Waits until it has caught up, and checks its subsets. Returns the number of changes that it has read, if the server
    /// supports it.
    async fn judge(mut self) -> Option<u64> {
        if !self.has_begun {
            // The server is older than MongoDB 6.0.
            assert_eq!(self.task.await.unwrap().unwrap_err().kind(), ErrorKind::Unsupported);
            return None;
        }
        let last = ask(&self.database, doc! { "ping": 1 }).await;
        let last = last.get_timestamp("operationTime").unwrap();
        let caught_up = self.reached.wait_for(|at| at.up_to.is_some_and(|up_to| up_to >= last));
        let caught_up = timeout(LAST_CALLS, caught_up).await;
        let has_ended = caught_up.expect("the follower makes no progress").is_err();
        assert!(!has_ended, "the follower ended: {:?}", self.task.await);
        self.stop.send_replace(true);
        let followed = self.task.await.unwrap().unwrap();
        subset::assert_correct(&self.database).await;
        Some(followed.changes)
    }
}

/// Waits until the servers execute no command of a client that is gone.
pub async fn quiet(database: &Database) {
    let admin = database.client().database("admin");
    let busy = async {
        loop {
            let ours = doc! { "currentOp": 1, "active": true, "ns": { "$regex": "^(test|past)\\." } };
            let active = ask(&admin, ours).await;
            let active = active.get_array("inprog").unwrap();
            // A change stream waits at the server as long as it is open.
            let waits = |op: &Bson| op.as_document().unwrap().get_str("op").is_ok_and(|op| op == "getmore");
            if active.iter().all(waits) {
                return;
            }
            pause().await;
        }
    };
    timeout(LAST_CALLS, busy).await.expect("the servers are busy");
}
