//! A rolling deployment: programs of two releases write one collection, and the second one migrates it.

use std::process::{Child, Command, Stdio};

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use super::processes::line;
use support::common::until;
use support::schema::contacts::*;

const DOCUMENTS: i32 = 30;

/// Starts a program that counts in fields of random contacts. It prints how many of its writes are acknowledged, refused
/// because of a newer version, and failed.
fn program(db: &TestDatabase, release: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_process"))
        .args(["write-contacts", db.server().uri(), db.database().name(), release])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the numbers that a program printed.
fn numbers(child: &mut Child) -> Vec<i64> {
    drop(child.stdin.take());
    let line = line(child);
    assert!(child.wait().unwrap().success());
    line.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// All acknowledged writes are in the field that the second release reads.
#[tokio::test(flavor = "multi_thread")]
async fn programs_of_two_releases_lose_nothing_while_one_of_them_migrates() {
    testkit::run(async |db| {
        for release in ["typed", "server"] {
            plant(db, (0..DOCUMENTS).map(|id| doc! { "_id": id, "name": "Taylor", "n": 0 })).await;
            set_up(&release_1(db), db).await;
            let mut programs = vec![program(db, "guarded")];
            until("a write of the first release", async || {
                stored(db).count_documents(doc! { "n": { "$gt": 0 } }).await.unwrap() > 0
            })
            .await;
            programs.extend([program(db, release), program(db, release)]);
            until("the end of the migration", async || {
                let migrated = stored(db).count_documents(doc! { "schemaVersion": 2 }).await;
                migrated.unwrap() == DOCUMENTS as u64
            })
            .await;
            let done = programs.iter_mut().map(numbers).collect::<Vec<_>>();
            assert!(done.iter().all(|numbers| numbers[2] == 0), "{done:?}");
            let acknowledged: i64 = done.iter().map(|numbers| numbers[0]).sum();
            assert!(done[0][1] > 0, "the first release gets errors for newer documents: {done:?}");
            assert_eq!(done[1][1] + done[2][1], 0, "{done:?}");
            let sum = doc! { "$group": {
                "_id": "$schemaVersion", "documents": { "$sum": 1 }, "count": { "$sum": "$count.n" }, "n": { "$sum": "$n" },
            } };
            let sums = stored(db).aggregate([sum]).await.unwrap();
            let sums: Vec<Document> = futures::TryStreamExt::try_collect(sums).await.unwrap();
            assert_eq!(sums.len(), 1, "{sums:?}");
            assert_eq!(sums[0].get_i32("documents").unwrap(), DOCUMENTS);
            let total = sums[0].get("count").unwrap();
            assert_eq!(total.as_i64().or(total.as_i32().map(i64::from)), Some(acknowledged), "{sums:?}");
            assert_eq!(sums[0].get("n"), Some(&0.into()), "no write is in the old field");
        }
    })
    .await;
}
