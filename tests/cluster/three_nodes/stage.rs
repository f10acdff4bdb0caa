//! All that runs at once: three nodes, the writers and readers of each pattern, a follower and moves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mongo_patterns::subset::Followed;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{ReplicaSet, ReplicaSetOptions};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{ClientOptions, WriteConcern};
use mongodb::{Client, Database};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::bucket_load::{Judged, Ledger, Level};
use super::calls::Load;
use super::embedded_load::Addresses;
use super::outlier_load::Sales;
use super::report::Stored;
use super::subset_load::Reviews;
use super::{flat_load, subset_load};
use crate::subset::support::BOTH;

/// How long what is under way may take when the load stops.
const LAST_CALLS: Duration = Duration::from_secs(120);

/// The election timeout when the load has stopped.
const CALM_MILLIS: i32 = 3000;

#[derive(Debug)]
pub struct Stage {
    pub set: ReplicaSet,
    pub database: Database,
    pub load: Arc<Load>,
    pub ledgers: [Arc<Ledger>; 2],
    sales: [Arc<Sales>; 2],
    addresses: Arc<Addresses>,
    reviews: Arc<Reviews>,
    tasks: Vec<JoinHandle<()>>,
    mover: JoinHandle<(u64, u64)>,
    follower: Follower,
}

/// A follower, over the reviews of a program that knows nothing of subsets.
#[derive(Debug)]
struct Follower {
    database: Database,
    task: JoinHandle<Result<Followed, Error>>,
    reached: watch::Receiver<Followed>,
    stop: watch::Sender<bool>,
    /// Whether the server is new enough.
    has_begun: bool,
}

/// A database by a client of its own, as another process has one.
pub async fn elsewhere(set: &ReplicaSet, name: &str) -> Database {
    let mut options = ClientOptions::parse(set.uri()).await.unwrap();
    options.write_concern = Some(WriteConcern::majority());
    // A node that does not answer is found out in seconds.
    options.connect_timeout = Some(Duration::from_secs(2));
    options.heartbeat_freq = Some(Duration::from_secs(1));
    options.server_selection_timeout = Some(Duration::from_secs(5));
    Client::with_options(options).unwrap().database(name)
}

/// What the primary answers, when there is one.
pub async fn ask(database: &Database, command: Document) -> Document {
    let answer = async {
        loop {
            if let Ok(answer) = database.run_command(command.clone()).await {
                return answer;
            }
        }
    };
    timeout(LAST_CALLS, answer).await.expect("no primary answers")
}

impl Stage {
    /// Starts everything.
    pub async fn start() -> Self {
        let fast = ReplicaSetOptions::new(3).election_timeout(Duration::from_secs(1));
        let set = ReplicaSet::start_with(fast).await.unwrap();
        let database = elsewhere(&set, "test").await;
        let load = Load::new();
        let mut tasks: Vec<JoinHandle<()>> = Vec::new();

        let ledgers = [Ledger::new("trades", false, &load), Ledger::new("orders", true, &load)];
        for ledger in &ledgers {
            let trades = ledger.repository(&database, Level::Default);
            trades.ensure_indexes().await.unwrap();
            for _ in 0..2 {
                tasks.push(tokio::spawn(Arc::clone(ledger).write(trades.clone())));
            }
            let other = elsewhere(&set, "test").await;
            for level in Level::ALL {
                let place = if level == Level::Default { &database } else { &other };
                let (ledger, trades) = (Arc::clone(ledger), ledger.repository(place, level));
                tasks.push(match level {
                    Level::Session => tokio::spawn(ledger.read_in_sessions(trades)),
                    _ => tokio::spawn(ledger.read(trades, level)),
                });
            }
        }
        let sales = [Sales::new(false, &load), Sales::new(true, &load)];
        for sales in &sales {
            let books = sales.repository(&elsewhere(&set, "test").await);
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
        let reviews = Reviews::new(&load);
        subset_load::prepare(&database).await;
        for consistency in BOTH {
            let products = subset_load::repository(&elsewhere(&set, "test").await, consistency);
            tasks.push(tokio::spawn(Arc::clone(&reviews).write(products, consistency)));
        }
        let looks_at = elsewhere(&set, "test").await;
        tasks.push(tokio::spawn(subset_load::look(Arc::clone(&load), looks_at)));
        let moves_in = elsewhere(&set, "test").await;
        let mover = tokio::spawn(flat_load::move_again_and_again(Arc::clone(&load), moves_in));
        let follower = Follower::start(&set).await;
        let past = subset_load::write_past(Arc::clone(&load), follower.database.clone());
        tasks.push(tokio::spawn(past));
        Self {
            set,
            database,
            load,
            ledgers,
            sales,
            addresses,
            reviews,
            tasks,
            mover,
            follower,
        }
    }

    /// The number of the last election.
    pub async fn term(&self) -> i64 {
        let admin = self.database.client().database("admin");
        let status = ask(&admin, doc! { "replSetGetStatus": 1 }).await;
        status.get_i64("term").unwrap()
    }

    /// Stops the load, waits until nothing is under way, and compares all that is stored with all that callers were
    /// told.
    pub async fn judge(mut self) -> (Stored, BTreeMap<Level, Judged>) {
        self.load.stop();
        let end = async {
            for task in self.tasks {
                task.await.unwrap();
            }
            self.mover.await.unwrap()
        };
        let moves = timeout(LAST_CALLS, end).await.expect("a call does not end");
        calm(&self.database).await;
        quiet(&self.database).await;
        super::taken_back::show(&mut self.set, &self.ledgers[0], &self.database).await;

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
        let (reviews, mended) = self.reviews.judge(&self.database).await;
        let stored = Stored {
            by_kind,
            reviews,
            mended,
            followed,
            moves,
        };
        (stored, levels)
    }
}

impl Follower {
    async fn start(set: &ReplicaSet) -> Self {
        let database = elsewhere(set, "past").await;
        subset_load::prepare(&database).await;
        let (at, mut reached) = watch::channel(Followed::default());
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(subset_load::follow(elsewhere(set, "past").await, at, stopped));
        let has_begun = reached.changed().await.is_ok();
        Self {
            database,
            task,
            reached,
            stop,
            has_begun,
        }
    }

    /// Waits until it has caught up, and looks at its subsets. Returns how many changes it has seen.
    async fn judge(mut self) -> u64 {
        if !self.has_begun {
            // older than MongoDB 6.0
            assert_eq!(self.task.await.unwrap().unwrap_err().kind(), ErrorKind::Unsupported);
            return 0;
        }
        let last = ask(&self.database, doc! { "ping": 1 })
            .await
            .get_timestamp("operationTime")
            .unwrap();
        let there = self.reached.wait_for(|at| at.up_to.is_some_and(|up_to| up_to >= last));
        let has_ended = timeout(LAST_CALLS, there)
            .await
            .expect("the follower stands still")
            .is_err();
        assert!(!has_ended, "the follower ended: {:?}", self.task.await);
        self.stop.send_replace(true);
        let followed = self.task.await.unwrap().unwrap();
        subset_load::assert_right(&self.database).await;
        followed.changes
    }
}

/// From now on no primary loses its place because the machine is busy.
async fn calm(database: &Database) {
    let admin = database.client().database("admin");
    loop {
        let answer = ask(&admin, doc! { "replSetGetConfig": 1 }).await;
        let mut config = answer.get_document("config").unwrap().clone();
        let version = config.get_i32("version").unwrap();
        config.insert("version", version + 1);
        let settings = config.get_document_mut("settings").unwrap();
        if settings.insert("electionTimeoutMillis", CALM_MILLIS) == Some(CALM_MILLIS.into()) {
            return;
        }
        drop(admin.run_command(doc! { "replSetReconfig": config }).await);
    }
}

/// Waits until the servers do nothing any more for clients that are gone.
async fn quiet(database: &Database) {
    let admin = database.client().database("admin");
    let busy = async {
        loop {
            let ours = doc! { "currentOp": 1, "active": true, "ns": { "$regex": "^(test|past)\\." } };
            let active = ask(&admin, ours).await;
            let active = active.get_array("inprog").unwrap();
            // A change stream waits at the server for as long as it is open.
            let waits = |op: &Bson| op.as_document().unwrap().get_str("op").is_ok_and(|op| op == "getmore");
            if active.iter().all(waits) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LAST_CALLS, busy).await.expect("the servers are busy");
}
