//! Three nodes, whose primary is repeatedly killed, frozen and stepped down. All patterns are under load, with a
//! follower and migrations. Acknowledged writes are stored exactly once, refused ones are not stored, and unknown ones
//! at most once. Histories of appends and reads are recorded and checked.
//!
//! `cargo xtask ci --full` runs two of each. `cargo xtask long primary` is the long form: a hundred kills. It writes `docs/three-nodes.md`.

mod nemesis;
mod report;
mod rollback;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{ReplicaSet, ReplicaSetOptions};
use mongodb::Database;
use mongodb::bson::doc;

use crate::cluster::load::bucket::{Judged, Level};
use crate::cluster::load::stage::{Stage, ask, quiet};
use nemesis::{Faults, inject_faults};
use report::{CHECKPOINT_SECONDS, Report};

/// The election timeout when the load has stopped.
const LONG_ELECTION_TIMEOUT_MILLIS: i32 = 3000;
const SAMPLE: Faults = Faults {
    kills: 1,
    freezes: 0,
    step_downs: 1,
};
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
/// The errors of calls while the primary changes, or if an earlier attempt took effect.
const EXPECTED: [ErrorKind; 6] = [
    ErrorKind::ServerSelection,
    ErrorKind::Network,
    ErrorKind::WriteConcern,
    ErrorKind::Contention,
    ErrorKind::Driver,
    ErrorKind::AlreadyExists,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn what_is_acknowledged_is_stored_once_when_the_primary_is_killed_or_steps_down() {
    under(SAMPLE).await;
}

/// The same, with more of them, and with nodes that are frozen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: cargo xtask ci --full"]
async fn what_is_acknowledged_is_stored_once_whatever_happens_to_the_primary() {
    let is_long = std::env::var_os("MONGO_PATTERNS_LONG").is_some_and(|value| value == "1");
    let report = under(if is_long { LONG } else { SHORT }).await;
    if is_long {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        std::fs::write(folder.join("three-nodes.md"), report.text()).unwrap();
    }
}

async fn under(faults: Faults) -> Report {
    let fast = ReplicaSetOptions::new(3)
        .election_timeout(Duration::from_secs(1))
        .argument(format!("--syncdelay={CHECKPOINT_SECONDS}"));
    let mut set = ReplicaSet::start_with(fast).await.unwrap();
    let stage = Stage::start(&set.uri()).await;
    let (started, first_term) = (Instant::now(), term(&stage.database).await);
    inject_faults(&mut set, &stage.load, faults).await;
    let time = started.elapsed();
    let elections = term(&stage.database).await - first_term;
    let server = ask(&stage.database, doc! { "buildInfo": 1 }).await;
    let load = stage.load.clone();
    let (stored, levels) = stage
        .judge(async |ledger, database| {
            raise_election_timeout(database).await;
            quiet(database).await;
            rollback::check(&mut set, ledger, database).await;
        })
        .await;
    let report = Report {
        version: server.get_str("version").unwrap().to_owned(),
        faults,
        elections,
        time,
        calls: load.counts(),
        stored,
        levels,
    };
    println!("{}", report.text());
    check_readers(&report.levels);
    check_work(&report);
    report
}

/// Checks each level against its documentation.
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

/// Checks that the run had elections and successful calls.
fn check_work(report: &Report) {
    let faults = report.faults.kills + report.faults.freezes + report.faults.step_downs;
    assert!(report.elections >= faults as i64, "{} elections", report.elections);
    for (kind, counts) in &report.calls {
        assert!(counts.done > 0, "{kind}: {counts:?}");
        for error in counts.errors.keys() {
            let name = error.split(' ').next().unwrap();
            let is_expected = EXPECTED.iter().any(|expected| format!("{expected:?}") == name);
            assert!(is_expected, "{kind}: {error}");
        }
    }
    assert!(report.stored.migrations.0 > 0);
}

/// Returns the term of the last election.
async fn term(database: &Database) -> i64 {
    let admin = database.client().database("admin");
    let status = ask(&admin, doc! { "replSetGetStatus": 1 }).await;
    status.get_i64("term").unwrap()
}

/// Raises the election timeout, so that no primary steps down because the machine is busy.
async fn raise_election_timeout(database: &Database) {
    let admin = database.client().database("admin");
    loop {
        let answer = ask(&admin, doc! { "replSetGetConfig": 1 }).await;
        let mut config = answer.get_document("config").unwrap().clone();
        let version = config.get_i32("version").unwrap();
        config.insert("version", version + 1);
        let settings = config.get_document_mut("settings").unwrap();
        if settings.insert("electionTimeoutMillis", LONG_ELECTION_TIMEOUT_MILLIS)
            == Some(LONG_ELECTION_TIMEOUT_MILLIS.into())
        {
            return;
        }
        drop(admin.run_command(doc! { "replSetReconfig": config }).await);
    }
}
