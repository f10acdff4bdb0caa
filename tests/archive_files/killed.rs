//! Processes that are killed at each step of a call.

use std::process::{Command, Stdio};

use mongo_patterns::archive_files::FileArchive;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, doc};

use support::archive::files::*;
use support::archive::sales::{current, new, old, sale};
use support::common::all;

/// Runs a call in a process that dies at a step, and ends its transaction, as the server does after 60 seconds. Returns whether it
/// died.
async fn dies(db: &TestDatabase, call: &str, step: usize) -> bool {
    let output = Command::new(env!("CARGO_BIN_EXE_process"))
        .args(["archive-in-files", db.server().uri(), db.database().name()])
        .arg(directory(db))
        .args([call, &step.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let session = |id: &str| {
        let byte = |at: usize| u8::from_str_radix(&id[at..at + 2], 16).unwrap();
        let bytes = (0..id.len()).step_by(2).map(byte).collect();
        let subtype = BinarySubtype::Uuid;
        doc! { "id": Binary { subtype, bytes } }
    };
    let sessions: Vec<Document> = printed.lines().map(session).collect();
    assert!(!sessions.is_empty(), "an empty list kills all sessions of all tests");
    let admin = db.plain_client().database("admin");
    admin.run_command(doc! { "killSessions": sessions }).await.unwrap();
    !output.status.success()
}

/// Begins with six old sales, or with the two files of an earlier run.
async fn begin(db: &TestDatabase, in_files: bool) -> FileArchive<Document> {
    let catalog = db.plain_collection::<Document>("mongo_patterns");
    catalog.delete_many(doc! { "_id.kind": "archive_file" }).await.unwrap();
    let archive = archive(db).await;
    plant(db, (0..6).map(|id| sale(id, old(i64::from(id))))).await;
    if in_files {
        archive.run().chunk(3).await.unwrap();
    }
    archive
}

/// Each document is once in the collection or in a file.
async fn assert_each_once(db: &TestDatabase, context: &str) {
    let mut ids = both(db).await.concat();
    ids.sort_unstable();
    assert_eq!(ids, Vec::from_iter(0..6), "{context}");
}

#[tokio::test]
async fn a_run_that_is_killed_at_any_step_loses_nothing() {
    testkit::run(async |db| {
        let mut steps = 1;
        loop {
            let archive = begin(db, false).await;
            if !dies(db, "run", steps).await {
                break;
            }
            let context = format!("step {steps}: {:?}", listed(db));
            assert_each_once(db, &context).await;
            // A writer comes before the next run.
            let n = doc! { "$inc": { "n": 1 } };
            let written = current(db).update_many(doc! {}, n).await.unwrap().matched_count;
            let unfinished = problems(&archive).await;
            assert!(unfinished.len() <= 1, "{context} {unfinished:?}");
            assert_eq!(archive.run().await.unwrap().documents, written, "{context}");
            assert_each_once(db, &context).await;
            assert_eq!(sum(db).await, i64::try_from(written).unwrap(), "{context}");
            assert_tidy(db, &archive).await;
            steps += 1;
        }
        // Two chunks of a write of a file, which has three steps, and eight events of four commands.
        assert!(steps > 16, "{steps}");
    })
    .await;
}

#[tokio::test]
async fn a_restore_that_is_killed_at_any_step_loses_nothing() {
    testkit::run(async |db| {
        let mut steps = 1;
        loop {
            let archive = begin(db, true).await;
            if !dies(db, "restore", steps).await {
                break;
            }
            let context = format!("step {steps}: {:?}", listed(db));
            assert_each_once(db, &context).await;
            let restored: Vec<Document> = all(&current(db)).await;
            assert!(matches!(restored.len(), 0 | 3), "{context}");
            archive.run().before(old(0)).await.unwrap();
            assert_each_once(db, &context).await;
            assert_tidy(db, &archive).await;
            steps += 1;
        }
        assert!(steps > 8, "{steps}");
    })
    .await;
}

#[tokio::test]
async fn a_deletion_that_is_killed_at_any_step_ends_when_it_is_called_again() {
    testkit::run(async |db| {
        let mut steps = 1;
        loop {
            let archive = begin(db, true).await;
            let died = dies(db, "delete", steps).await;
            let left = archive.delete_before(new(0)).await.unwrap().documents;
            assert!(left <= 6 && (died || left == 0), "step {steps}: {left}");
            assert_eq!(both(db).await.concat(), Vec::<i32>::new(), "step {steps}");
            assert_tidy(db, &archive).await;
            if !died {
                break;
            }
            steps += 1;
        }
        assert!(steps > 8, "{steps}");
    })
    .await;
}
