//! A process that is killed during a migration.

use std::process::{Command, Stdio};

use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, doc};

use crate::bucket::migration::*;
use crate::bucket::migration_again::trades;
use support::bucket::migration::*;
use support::common::{pause, plain};

/// The server may continue with the chunk of the killed process, while the next process runs the same chunk.
#[tokio::test]
async fn a_process_that_is_killed_in_a_chunk() {
    testkit::run(async |db| {
        let keys: Vec<Bson> = (0..200).map(Bson::Int32).collect();
        let documents = documents(&keys, 40);
        fill(db, &documents).await;
        let mut migrating = Command::new(env!("CARGO_BIN_EXE_move-in-chunks"))
            .args([db.server().uri(), db.database().name(), "1000000"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while plain(db).find_one(doc! {}).await.unwrap().is_none() {
            pause().await;
        }
        migrating.kill().unwrap();
        migrating.wait().unwrap();
        let migrated = trades(db).migrate_from_flat(&flat(db)).await.unwrap();
        assert_eq!((migrated.keys, migrated.items, migrated.resumed), (200, 8_000, true));
        assert!(stored(&plain(db)).await == buckets::<u32>(&documents, "customerId", 10, false));
    })
    .await;
}
