//! Processes that are killed during a migration.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, doc};

use crate::bucket::migration::*;
use crate::bucket::migration_again::{Way, begin, trades};
use crate::common::support::{pause, plain};

/// A process that migrates, with pipes to it.
fn mover(db: &TestDatabase, chunk_items: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_move-in-chunks"))
        .args([db.server().uri(), db.database().name(), chunk_items])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_process_that_is_killed_after_a_chunk() {
    testkit::run(async |db| {
        begin(db).await;
        let expected = Way::There.prepare(db).await;
        let mut child = mover(db, "25");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "30 of 90\n");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stored(&plain(db)).await.len(), 4);
        let migrated = Way::There.go(db).await.unwrap();
        assert!(migrated.resumed);
        Way::There.check(db, migrated, &expected).await;
    })
    .await;
}

/// The server may continue with the chunk of the killed process, while the next process runs the same chunk.
#[tokio::test]
async fn a_process_that_is_killed_in_a_chunk() {
    testkit::run(async |db| {
        let keys: Vec<Bson> = (0..400).map(Bson::Int32).collect();
        let documents = documents(&keys, 40);
        fill(db, &documents).await;
        let mut child = mover(db, "1000000");
        while plain(db).find_one(doc! {}).await.unwrap().is_none() {
            pause().await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let migrated = trades(db).migrate_from_flat(&flat(db)).await.unwrap();
        assert_eq!((migrated.keys, migrated.items, migrated.resumed), (400, 16_000, true));
        assert!(stored(&plain(db)).await == buckets::<u32>(&documents, "customerId", 10, false));
    })
    .await;
}
