//! Three nodes, whose primary is killed, frozen and made to step down again and again, under the load of all patterns at
//! once, with a follower and moves running. What was acknowledged is stored, once; what was refused is not; what is
//! unknown is stored once at most. Histories of appends and reads are recorded and checked.
//!
//! `cargo xtask long primary` is the long form: a hundred kills. It writes `docs/guarantees/three-nodes.md`.

mod bucket_load;
mod calls;
mod embedded_load;
mod flat_load;
mod history;
mod nemesis;
mod outlier_load;
mod report;
mod stage;
mod subset_load;
mod taken_back;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use mongodb::bson::doc;

use bucket_load::{Judged, Level};
use nemesis::{Faults, torment};
use report::Report;
use stage::{Stage, ask};

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
    "ServerSelection",
    "Network",
    "WriteConcern",
    "Contention",
    "Driver",
    "ChildExists",
    "AlreadyExists",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_is_stored_once_whatever_happens_to_the_primary() {
    let is_long = std::env::var_os("MONGO_PATTERNS_LONG").is_some_and(|value| value == "1");
    let faults = if is_long { LONG } else { SHORT };
    let mut stage = Stage::start().await;
    let (started, first_term) = (Instant::now(), stage.term().await);
    torment(&mut stage.set, &stage.load, faults).await;
    let time = started.elapsed();
    let elections = stage.term().await - first_term;
    let server = ask(&stage.database, doc! { "buildInfo": 1 }).await;
    let load = stage.load.clone();
    let (stored, levels) = stage.judge().await;
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
    if is_long {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guarantees");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("three-nodes.md"), report.text()).unwrap();
    }
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
    assert_eq!(report.stored.moves.0 > 0, flat_load::can_move(&report.version));
}
