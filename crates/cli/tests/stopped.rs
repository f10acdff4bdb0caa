//! Runs that are stopped and resumed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use futures::TryStreamExt;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

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
        // The first line comes before the first chunk.
        while line.is_empty() || line.contains(": 0 of") {
            line.clear();
            errors.read_line(&mut line).unwrap();
            assert!(line.contains("of 20,000 items"), "{line}");
        }
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

/// Without the index, one command migrates everything. It ends on the server too.
#[cfg(unix)]
#[tokio::test]
async fn a_signal_ends_the_operation_on_the_server() {
    testkit::run(async |db| {
        if !can_migrate(db).await {
            return;
        }
        fill(db, 2000, 60_000).await;
        db.plain_collection::<Document>("flat").drop_indexes().await.unwrap();
        for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
            db.plain_collection::<Document>("trades").drop().await.unwrap();
            let mut program = on(db);
            program.arg("bucket").args(BUCKETS).args(["migrate", "--no-index"]);
            let child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            while running(db).await == 0 {
                tokio::task::yield_now().await;
            }
            let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
            assert!(kill.unwrap().success());
            let output = child.wait_with_output().unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{errors}");
            assert!(errors.contains("again to resume"), "{errors}");
            assert_eq!(running(db).await, 0, "{errors}");
            let trades = db.plain_collection::<Document>("trades");
            let buckets = trades.count_documents(doc! {}).await.unwrap();
            assert!(
                buckets < 6000,
                "the migration was stopped, but all {buckets} buckets exist"
            );
        }
        let migrated = bucket(db, &["migrate", "--no-index", "--json"]);
        assert_eq!(
            (migrated.code, &migrated.summary()["items"]),
            (Some(0), &60_000.into()),
            "{migrated:?}"
        );
    })
    .await;
}

/// The number of migrations from the database's flat collection that the server runs.
#[cfg(unix)]
async fn running(db: &TestDatabase) -> usize {
    let admin = db.plain_client().database("admin");
    let namespace = format!("{}.flat", db.database().name());
    let stages = [
        doc! { "$currentOp": { "allUsers": true } },
        doc! { "$match": { "ns": namespace } },
    ];
    let operations = admin.aggregate(stages).await.unwrap();
    let operations: Vec<Document> = operations.try_collect().await.unwrap();
    operations
        .iter()
        .filter(|operation| operation.to_string().contains("$merge"))
        .count()
}
