//! Many instances at once.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::schema::Migrations;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use tokio::sync::Semaphore;

use crate::schema::support::*;

const INSTANCES: usize = 8;

/// Every instance has read the record before the first step ends. A tool that reads, runs and records would run the step
/// in all of them.
#[tokio::test]
async fn each_step_runs_in_one_of_many_instances() {
    testkit::run(async |db| {
        let reads = |db: &TestDatabase| db.recorder().names().iter().filter(|name| *name == "find").count();
        let instance = async || {
            // A client of its own would not be recorded.
            let first = Migrations::new(db.database()).step("a", async |database| {
                trace(&database, "a").await?;
                database
                    .collection::<Document>("door")
                    .insert_one(doc! { "_id": "is reached" })
                    .await?;
                while database
                    .collection::<Document>("door")
                    .find_one(doc! { "_id": "is open" })
                    .await?
                    .is_none()
                {
                    tokio::task::yield_now().await;
                }
                Ok(())
            });
            in_transaction(plain(first, "b"), "c").run().await.unwrap()
        };
        db.recorder().clear();
        let open = async {
            let door = db.plain_collection::<Document>("door");
            while door.find_one(doc! { "_id": "is reached" }).await.unwrap().is_none() || reads(db) < INSTANCES {
                tokio::task::yield_now().await;
            }
            door.insert_one(doc! { "_id": "is open" }).await.unwrap();
        };
        let (applied, ()) = tokio::join!(join_all((0..INSTANCES).map(|_| instance())), open);
        assert_eq!(traces(db).await, ["a", "b", "c"]);
        assert_eq!(recorded(db).await, ["a", "b", "c"]);
        let ran: Vec<String> = applied.into_iter().flat_map(|applied| applied.steps).collect();
        assert_eq!(ran, ["a", "b", "c"]);
    })
    .await;
}

/// Instances of two releases start at once: each step runs once, whoever begins.
#[tokio::test]
async fn instances_of_two_releases() {
    testkit::run(async |db| {
        let of = |names: &'static [&'static str]| async move {
            let client = Client::with_uri_str(db.server().uri()).await.unwrap();
            list(&client.database(db.database().name()), names).run().await.unwrap();
        };
        let older = (0..3).map(|_| of(&["a", "b"]));
        let newer = (0..3).map(|_| of(&["a", "b", "c"]));
        tokio::join!(join_all(older), join_all(newer));
        assert_eq!(
            (traces(db).await, recorded(db).await.len()),
            (vec!["a".into(), "b".into(), "c".into()], 3)
        );
    })
    .await;
}

#[tokio::test]
async fn a_bounded_wait_ends_with_an_error() {
    testkit::run(async |db| {
        let (begun, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let of = || {
            let (begun, open) = (begun.clone(), open.clone());
            Migrations::new(db.database()).step("a", async move |database| {
                begun.add_permits(1);
                let _permit = open.acquire().await;
                trace(&database, "a").await
            })
        };
        let others = async {
            let _begun = begun.acquire().await;
            for wait in [Duration::ZERO, Duration::from_millis(50)] {
                let error = of().max_wait(wait).run().await.unwrap_err();
                assert_error(&error, ErrorKind::Contention, None);
                assert!(
                    error.is_transient() && error.to_string().contains("max_wait"),
                    "{error}"
                );
            }
            assert!(of().status().await.unwrap().running_since.is_some());
            open.add_permits(1);
        };
        let (applied, ()) = tokio::join!(of().run(), others);
        assert_eq!(applied.unwrap().steps, ["a"]);
        assert_eq!(traces(db).await, ["a"]);
    })
    .await;
}

/// The lease is renewed while a step runs for longer than its time to live.
#[tokio::test]
async fn a_long_step_keeps_the_lease() {
    testkit::run(async |db| {
        let begun = Arc::new(Semaphore::new(0));
        let (in_step, time_to_live) = (begun.clone(), Duration::from_secs(2));
        let list = |name: &'static str| plain(Migrations::new(db.database()).time_to_live(time_to_live), name);
        let long = Migrations::new(db.database())
            .time_to_live(time_to_live)
            .step("a", async move |database| {
                in_step.add_permits(1);
                // The condition: the lease has been renewed twice, so its first end is over.
                let catalog = database.collection::<Document>("mongo_patterns");
                let lease =
                    doc! { "_id.kind": "lease", "$expr": { "$gt": [{ "$subtract": ["$until", "$since"] }, 2 * 2000] } };
                while catalog.find_one(lease.clone()).await?.is_none() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                trace(&database, "a").await
            });
        let other = async {
            let _begun = begun.acquire().await;
            list("a").run().await.unwrap()
        };
        let (long, other) = tokio::join!(long.run(), other);
        assert_eq!((long.unwrap().steps.len(), other.steps.len()), (1, 0));
        assert_eq!(traces(db).await, ["a"]);
    })
    .await;
}
