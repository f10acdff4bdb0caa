//! Three nodes, whose primary is killed, frozen and made to step down again and again, under the load of all patterns at
//! once, with a follower and moves running. What was acknowledged is stored, once; what was refused is not; what is
//! unknown is stored once at most. Histories of appends and reads are recorded and checked.
//!
//! `MONGO_PATTERNS_LONG=1 cargo test -p integration-tests -- three_nodes` is the long form: a hundred kills. It writes
//! `docs/guarantees/three-nodes.md`.

mod bucket_load;
mod calls;
mod embedded_load;
mod flat_load;
mod history;
mod nemesis;
mod outlier_load;
mod report;
mod subset_load;
mod taken_back;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mongo_patterns::ErrorKind;
use mongo_patterns::subset::Followed;
use mongo_patterns_testkit::{ReplicaSet, ReplicaSetOptions};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{ClientOptions, WriteConcern};
use mongodb::{Client, Database};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use bucket_load::{Judged, Ledger, Level};
use calls::Load;
use embedded_load::Addresses;
use nemesis::{Faults, torment};
use outlier_load::Sales;
use report::Report;
use subset_load::Reviews;

const SHORT: Faults = Faults {
    kills: 2,
    freezes: 2,
    step_downs: 2,
};
const LONG: Faults = Faults {
    kills: 100,
    freezes: 30,
    step_downs: 30,
};
/// What a call may end with while the primary changes, or since an earlier one did what it should.
const EXPECTED: [&str; 7] = [
    "Unreachable",
    "Network",
    "WriteConcern",
    "Contention",
    "Driver",
    "ChildExists",
    "AlreadyExists",
];
/// How long what is under way may take when the load stops.
const LAST_CALLS: Duration = Duration::from_secs(120);

/// A database by a client of its own, as another process has one.
async fn elsewhere(set: &ReplicaSet, name: &str) -> Database {
    let mut options = ClientOptions::parse(set.uri()).await.unwrap();
    options.write_concern = Some(WriteConcern::majority());
    // A node that does not answer is found out in seconds.
    options.connect_timeout = Some(Duration::from_secs(2));
    options.heartbeat_freq = Some(Duration::from_secs(1));
    options.server_selection_timeout = Some(Duration::from_secs(5));
    Client::with_options(options).unwrap().database(name)
}

/// The number of the last election.
async fn term(database: &Database) -> i64 {
    let admin = database.client().database("admin");
    let status: Document = admin.run_command(doc! { "replSetGetStatus": 1 }).await.unwrap();
    status.get_i64("term").unwrap()
}

/// Waits until the servers do nothing any more for clients that are gone.
async fn quiet(database: &Database) {
    let admin = database.client().database("admin");
    let last = database.collection::<Document>("last");
    last.insert_one(doc! {}).await.unwrap();
    loop {
        let ours = doc! { "currentOp": 1, "active": true, "ns": { "$regex": "^(test|past)\\." } };
        let active: Document = admin.run_command(ours).await.unwrap();
        let active = active.get_array("inprog").unwrap();
        // A change stream waits at the server for as long as it is open.
        let waits = |op: &Bson| op.as_document().unwrap().get_str("op").is_ok_and(|op| op == "getmore");
        if active.iter().all(waits) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_is_stored_once_whatever_happens_to_the_primary() {
    let is_long = std::env::var_os("MONGO_PATTERNS_LONG").is_some_and(|value| value == "1");
    let faults = if is_long { LONG } else { SHORT };
    let fast = ReplicaSetOptions::new(3).election_timeout(Duration::from_secs(1));
    let mut set = ReplicaSet::start_with(fast).await.unwrap();
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
        tasks.push(tokio::spawn(
            Arc::clone(&addresses).write(addresses.repository(&database)),
        ));
    }
    let reviews = Reviews::new(&load);
    subset_load::prepare(&database).await;
    for consistency in crate::subset_support::BOTH {
        let products = subset_load::repository(&elsewhere(&set, "test").await, consistency);
        tasks.push(tokio::spawn(Arc::clone(&reviews).write(products, consistency)));
    }
    tasks.push(tokio::spawn(subset_load::look(
        Arc::clone(&load),
        elsewhere(&set, "test").await,
    )));
    let past = elsewhere(&set, "past").await;
    subset_load::prepare(&past).await;
    let (at, mut reached) = watch::channel(Followed::default());
    let (stop, stopped) = watch::channel(false);
    let follower = tokio::spawn(subset_load::follow(elsewhere(&set, "past").await, at, stopped));
    let can_follow = reached.changed().await.is_ok();
    tasks.push(tokio::spawn(subset_load::write_past(Arc::clone(&load), past.clone())));
    let mover = tokio::spawn(flat_load::move_again_and_again(
        Arc::clone(&load),
        elsewhere(&set, "test").await,
    ));

    let (started, first_term) = (Instant::now(), term(&database).await);
    torment(&mut set, &load, faults).await;
    let time = started.elapsed();
    load.stop();
    let end = async {
        for task in tasks {
            task.await.unwrap();
        }
        mover.await.unwrap()
    };
    let moves = tokio::time::timeout(LAST_CALLS, end)
        .await
        .expect("a call does not end");
    quiet(&database).await;

    let followed = if can_follow {
        let last = subset_load::last_write(&past).await;
        let there = reached.wait_for(|at| at.up_to.is_some_and(|up_to| up_to >= last));
        let there = tokio::time::timeout(LAST_CALLS, there).await;
        if there.expect("the follower stands still").is_err() {
            panic!("the follower ended: {:?}", follower.await.unwrap());
        }
        stop.send_replace(true);
        let followed = follower.await.unwrap().unwrap();
        subset_load::assert_right(&past).await;
        followed.changes
    } else {
        // older than MongoDB 6.0
        assert_eq!(follower.await.unwrap().unwrap_err().kind(), ErrorKind::Unsupported);
        0
    };
    let mut stored = Vec::new();
    let mut levels: BTreeMap<Level, Judged> = BTreeMap::new();
    for (ledger, what) in ledgers.iter().zip(["bucket items", "bucket items with ids"]) {
        let (counts, judged) = ledger.judge(&ledger.repository(&database, Level::Default)).await;
        stored.push((what, counts));
        for (level, judged) in judged {
            levels.entry(level).or_default().add(judged);
        }
    }
    for (sales, what) in sales.iter().zip(["outlier elements", "outlier elements, unique"]) {
        stored.push((what, sales.judge(&sales.repository(&database)).await));
    }
    stored.push((
        "embedded children",
        addresses.judge(&addresses.repository(&database)).await,
    ));
    let (reviews, mended) = reviews.judge(&database).await;
    let report = Report {
        version: version(&database).await,
        faults,
        elections: term(&database).await - first_term,
        time,
        calls: load.counts(),
        stored,
        reviews,
        mended,
        followed,
        moves,
        levels,
    };
    println!("{}", report.text());
    taken_back::show(&mut set, &ledgers[0], &database).await;
    check_readers(&report.levels);
    check_work(&report);
    if is_long {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guarantees");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("three-nodes.md"), report.text()).unwrap();
    }
}

async fn version(database: &Database) -> String {
    let info = database.run_command(doc! { "buildInfo": 1 }).await.unwrap();
    info.get_str("version").unwrap().to_owned()
}

/// Each way of reading is held to what the documentation says of it.
fn check_readers(levels: &BTreeMap<Level, Judged>) {
    for (level, judged) in levels {
        for (wrong, first) in &judged.first {
            println!("{} {wrong}: {first}\n", level.name());
        }
    }
    for (level, judged) in levels {
        assert!(judged.reads > 0, "{}", level.name());
        let wrong = judged.wrong.keys().filter(|wrong| !level.allows(wrong));
        assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&&str>::new(), "{}", level.name());
    }
}

/// A run in which nothing happened shows nothing.
fn check_work(report: &Report) {
    let faults = report.faults.kills + report.faults.freezes + report.faults.step_downs;
    assert!(report.elections >= faults as i64, "{} elections", report.elections);
    for (kind, counts) in &report.calls {
        assert!(counts.done > 0, "{kind}: {counts:?}");
        for error in counts.errors.keys() {
            let name = error.split(' ').next().unwrap();
            assert!(EXPECTED.contains(&name), "{kind}: {error}");
        }
    }
    assert!(report.moves.0 > 0);
}
