//! The primary of three nodes is killed while an instance has the lease.

use std::time::Duration;

use mongo_patterns::Result;
use mongo_patterns::lease::Lease;
use mongo_patterns::schema::Migrations;
use mongo_patterns_testkit::ReplicaSet;
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};
use tokio::sync::Semaphore;

use support::common::{ends, pause};
use support::schema::steps::{trace, trace_in};

/// Calls again while there is no primary.
async fn until_done<T>(call: impl AsyncFn() -> Result<T>) -> T {
    ends("the call", async {
        loop {
            match call().await {
                Ok(done) => return done,
                Err(error) => assert!(error.is_transient() || error.is_outcome_unknown(), "{error:?}"),
            }
            pause().await;
        }
    })
    .await
}

fn migrations(database: &Database, begun: &'static Semaphore, killed: &'static Semaphore) -> Migrations {
    Migrations::new(database)
        .time_to_live(Duration::from_secs(5))
        .step("a", async move |database| {
            begun.add_permits(1);
            let _killed = killed.acquire().await;
            trace(&database, "a").await
        })
        .step_in_transaction("b", async |database, session| trace_in(&database, session, "b").await)
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_lease_and_applied_steps_survive_the_primary() {
    static BEGUN: Semaphore = Semaphore::const_new(0);
    static KILLED: Semaphore = Semaphore::const_new(0);
    let mut set = ReplicaSet::start(3).await.unwrap();
    let database = Client::with_uri_str(set.uri()).await.unwrap().database("shop");
    let lease = Lease::new(&database, "report").time_to_live(Duration::from_secs(600));
    let held = lease.acquire().await.unwrap();
    let instance = || async { until_done(async || migrations(&database, &BEGUN, &KILLED).run().await).await };
    let kill = async {
        let _begun = BEGUN.acquire().await;
        set.kill_primary().await.unwrap();
        KILLED.add_permits(10);
    };
    tokio::join!(instance(), instance(), kill);

    let none = until_done(async || lease.try_acquire().await).await;
    assert!(none.is_none(), "the lease is held");
    until_done(async || held.renew().await).await;
    let status = migrations(&database, &BEGUN, &KILLED).status().await.unwrap();
    assert_eq!((status.applied.len(), status.pending.len()), (2, 0));
    let trace = database.collection::<Document>("trace");
    assert_eq!(trace.count_documents(doc! { "step": "b" }).await.unwrap(), 1);
}
