//! Runs that are dropped, and holders that are too late.

use std::sync::mpsc;
use std::time::Duration;

use mongo_patterns::ErrorKind;
use mongo_patterns::schema::Migrations;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Client;
use mongodb::bson::{Document, doc};

use crate::schema::support::*;

/// A step that blocks its thread, so that the lease is not renewed, and the write of the record is sent after another
/// instance has taken over.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_record_is_refused_by_its_fence() {
    testkit::run(async |db| {
        let (uri, name) = (db.server().uri().to_owned(), db.database().name().to_owned());
        let (begun, is_begun) = mpsc::channel();
        let (over, is_over) = mpsc::channel();
        let late = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let database = Client::with_uri_str(uri).await.unwrap().database(&name);
                let is_over = std::sync::Mutex::new(is_over);
                let late = Migrations::new(&database).time_to_live(Duration::from_secs(3));
                let late = late.step("a", async move |_| {
                    begun.send(()).unwrap();
                    is_over.into_inner().unwrap().recv().unwrap();
                    Ok(())
                });
                let error = late.run().await.unwrap_err();
                mongo_patterns::drain().await; // also the write of the record
                error
            })
        });
        tokio::task::spawn_blocking(move || is_begun.recv().unwrap())
            .await
            .unwrap();
        let applied = list(db.database(), &["a", "b"]).run().await.unwrap();
        assert_eq!(applied.steps, ["a", "b"]);
        let before = record(db).await;
        over.send(()).unwrap();
        let error = tokio::task::spawn_blocking(move || late.join().unwrap()).await.unwrap();
        assert_error(&error, ErrorKind::Contention, Some("a"));
        assert_eq!(record(db).await, before);
    })
    .await;
}

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
