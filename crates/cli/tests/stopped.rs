//! Runs that are stopped and resumed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::Document;

use crate::support::*;

const CHUNK: [&str; 3] = ["migrate", "--chunk-items", "200"];

fn start(db: &TestDatabase, collection: &str) -> Child {
    let mut program = on(db);
    program
        .arg("bucket")
        .args(BUCKETS)
        .args(["--collection", collection])
        .args(CHUNK);
    program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[cfg(unix)]
#[tokio::test]
async fn a_migration_stops_at_ctrl_c_and_resumes() {
    testkit::run(async |db| {
        if !can_migrate(db).await {
            return;
        }
        fill(db, 200, 20_000).await;
        let mut child = start(db, "trades");
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert!(line.contains("of 20,000 items"), "{line}");
        interrupt(&child);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(130));
        let rest: Vec<String> = errors.lines().map(Result::unwrap).collect();
        assert!(
            rest.last().is_some_and(|line| line.contains("again to resume")),
            "{rest:?}"
        );
        let buckets = db
            .plain_collection::<Document>("trades")
            .estimated_document_count()
            .await
            .unwrap();
        assert!(
            buckets < 2000,
            "the migration was stopped, but all {buckets} buckets exist"
        );
        let migrated = bucket(db, &["migrate", "--json"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["resumed"]),
            (Some(0), &true.into()),
            "{migrated:?}"
        );
        assert_eq!(migrated.summary()["items"], 20_000);
    })
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_load_that_waits_for_input_can_be_stopped() {
    testkit::run(async |db| {
        let mut load = on(db);
        load.arg("bucket")
            .args(BUCKETS)
            .args(["load", "-", "--format", "ndjson"]);
        let mut child = load
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Once the index exists, the program is about to read.
        let trades = db.plain_collection::<Document>("trades");
        while trades.list_index_names().await.unwrap_or_default().len() < 2 {
            tokio::task::yield_now().await;
        }
        // Waiting for a child closes its standard input, which would end the load.
        let input = child.stdin.take();
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        drop(input);
    })
    .await;
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}
