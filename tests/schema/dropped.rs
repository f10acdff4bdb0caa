//! Runs that are dropped.

use mongo_patterns::schema::Migrations;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Document, doc};

use support::schema::steps::*;

/// Ends the lease of the dropped run, which would end later. The dropped run may still acquire it.
async fn end_lease(db: &TestDatabase) {
    mongo_patterns::drain().await;
    let catalog = db.plain_collection::<Document>("mongo_patterns");
    let ended = vec![doc! { "$set": { "until": "$$NOW" } }];
    let lease = doc! { "_id.kind": "lease" };
    catalog.update_one(lease, ended).await.unwrap();
}

/// The future is dropped at each of its commands. The next call finishes the list, and no step in a transaction is applied
/// twice.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_run_is_dropped_at_each_command() {
    let mut has_finished = false;
    for command in 1.. {
        if has_finished {
            assert!(command > 10, "{command}");
            return;
        }
        testkit::run(async |db| {
            let of = || {
                let list = plain(Migrations::new(db.database()), "a");
                in_transaction(list, "b")
            };
            db.recorder().clear();
            tokio::select! {
                applied = of().run() => {
                    applied.unwrap();
                    has_finished = true;
                }
                () = db.recorder().sent(command) => {}
            }
            let (next, ()) = tokio::join!(of().run(), end_lease(db));
            next.unwrap();
            mongo_patterns::drain().await;
            assert_eq!(recorded(db).await, ["a", "b"], "dropped at {command}");
            let traces = traces(db).await;
            let count = |step: &str| traces.iter().filter(|trace| *trace == step).count();
            assert!(
                (1..=2).contains(&count("a")) && count("b") == 1,
                "dropped at {command}: {traces:?}"
            );
            assert_eq!(of().run().await.unwrap().steps, Vec::<String>::new());
        })
        .await;
    }
}
