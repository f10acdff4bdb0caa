//! Processes that are killed, or stopped past the end of their lease. The tests end the lease: a short one would be lost on a
//! busy machine.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use futures::TryStreamExt;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use support::schema::steps::*;

const NOWHERE: &str = "-";

/// Starts an instance that waits in a step.
fn instance(db: &TestDatabase, waits_in: &str) -> Child {
    let uri = db.server().uri();
    let separator = if uri.contains('?') { '&' } else { '?' };
    let uri = format!("{uri}{separator}appName={}", app_name(db));
    Command::new(env!("CARGO_BIN_EXE_process"))
        .args(["run-migrations", &uri, db.database().name(), "30000", waits_in])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn app_name(db: &TestDatabase) -> String {
    format!("{} instance", db.database().name()).replace(' ', "_")
}

/// Ends the transactions of killed processes, as the server does after 60 seconds.
async fn end_transactions(db: &TestDatabase) {
    let admin = db.plain_client().database("admin");
    let stages = [
        doc! { "$currentOp": { "allUsers": true, "idleSessions": true } },
        doc! { "$match": { "type": "idleSession", "appName": app_name(db) } },
    ];
    let idle: Vec<Document> = admin.aggregate(stages).await.unwrap().try_collect().await.unwrap();
    let sessions = idle.iter().map(|found| found.get_document("lsid").unwrap().clone());
    let sessions: Vec<Document> = sessions.collect();
    // An empty list kills all sessions of all tests.
    if !sessions.is_empty() {
        admin.run_command(doc! { "killSessions": sessions }).await.unwrap();
    }
}

async fn end_lease(db: &TestDatabase) {
    let catalog = db.plain_collection::<Document>("mongo_patterns");
    let ended = vec![doc! { "$set": { "until": "$$NOW" } }];
    let ended = catalog.update_one(doc! { "_id.kind": "lease" }, ended).await.unwrap();
    assert_eq!(ended.matched_count, 1);
}

/// Returns the next line that a process prints.
pub(super) fn line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    line.trim_end_matches('\n').to_owned()
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// The next process continues. A plain step whose record is missing runs again, and one in a transaction has left nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_killed_in_a_step() {
    for (killed_in, expected) in [
        ("one", &["one", "one", "two", "three"][..]),
        ("two", &["one", "two", "three"]),
        ("three", &["one", "two", "three", "three"]),
    ] {
        testkit::run(async |db| {
            let mut killed = instance(db, killed_in);
            assert_eq!(line(&mut killed), format!("in {killed_in}"));
            killed.kill().unwrap();
            killed.wait().unwrap();
            end_lease(db).await;
            let mut next = instance(db, NOWHERE);
            assert!(line(&mut next).ends_with("three"));
            next.wait().unwrap();
            assert_eq!(traces(db).await, expected, "killed in {killed_in}");
            assert_eq!(recorded(db).await, ["one", "two", "three"]);
            end_transactions(db).await;
        })
        .await;
    }
}

/// Another process takes over. When the first one wakes up, it records nothing, and its transaction has no effect.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_stopped_past_the_end_of_its_lease() {
    for (stopped_in, expected) in [
        ("one", &["one", "one", "two", "three"][..]),
        ("two", &["one", "two", "three"]),
    ] {
        testkit::run(async |db| {
            let mut stopped = instance(db, stopped_in);
            assert_eq!(line(&mut stopped), format!("in {stopped_in}"));
            signal(&stopped, "-STOP");
            end_lease(db).await;
            let mut next = instance(db, NOWHERE);
            assert!(line(&mut next).ends_with("three"));
            next.wait().unwrap();
            let before = record(db).await;
            stopped.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            signal(&stopped, "-CONT");
            assert_eq!(line(&mut stopped), format!("contention in {stopped_in}"));
            assert!(stopped.wait().unwrap().success());
            assert_eq!(record(db).await, before);
            assert_eq!(traces(db).await, expected);
        })
        .await;
    }
}
