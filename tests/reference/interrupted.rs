//! Calls that are dropped between their commands, as by a process that dies: what they leave, and what corrects it.

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns::reference::{OnReferences, Problem, Repaired};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::doc;

use support::common::{all, dropped_commands, quiet};
use support::reference::*;

/// Drops a call when it has sent the command with this number: the process dies after it.
async fn died<T>(db: &TestDatabase, command: usize, call: impl IntoFuture<Output = T>) {
    db.recorder().clear();
    let blocked = FailPoint::on(&[]).times(1).block(Duration::from_millis(1));
    let blocked = blocked.plan(db, command);
    tokio::select! {
        biased;
        () = db.recorder().sent(command + 1) => {}
        _ = call.into_future() => panic!("the call ended before it was dropped"),
    }
    blocked.met(db, Duration::from_secs(2)).await;
    blocked.end();
    dropped_commands(db).await;
    quiet(db).await;
}

/// Returns a repository of another process.
fn other(db: &TestDatabase) -> Orders {
    builder(db.database()).build().unwrap()
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_rename_that_died_before_its_sweep_is_completed() {
    testkit::run(async |db| {
        for by in 0..3 {
            let orders = with_customers(db).await;
            for id in 1..=3 {
                orders.insert(&order(id, 1)).await.unwrap();
            }
            died(db, 0, orders.update_source(1, rename("Bea"))).await;
            assert_eq!(judge(db).await.stale, 3);
            let orders = other(db);
            let stale = Problem::Stale {
                version: 0,
                source_version: 1,
            };
            assert_eq!(problems(&orders).await, [stale; 3]);
            // A read that does not accept old copies returns the new one.
            let fresh = orders.get(1).max_staleness(0).await.unwrap().unwrap();
            assert_eq!(fresh.get_document("customer").unwrap().get_str("name").unwrap(), "Bea");
            match by {
                0 => assert_eq!(orders.refresh_copies(1).await.unwrap().copies, 3),
                1 => assert_eq!(repaired(&orders).await.len(), 3),
                _ => assert_eq!(orders.update_source(1, rename("Cas")).await.unwrap().copies, 3),
            }
            assert_eq!(assert_current(db, &orders).await, 3);
        }
    })
    .await;
}

/// A process dies after its insert, and before it has read the source again.
#[tokio::test]
async fn an_insert_that_died_before_its_second_read_is_corrected() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        died(db, 1, orders.insert(&order(7, 1))).await;
        // No rename was concurrent: the copy is current.
        assert_eq!(assert_current(db, &other(db)).await, 1);

        // A rename came between: it has swept before the order was there.
        let stale = doc! { "_id": 8, "customer": { "_id": 1, "name": "Ann", "v": 0_i64 } };
        other(db).update_source(1, rename("Bea")).await.unwrap();
        stored(db).insert_one(stale).await.unwrap();
        assert_eq!(problems(&other(db)).await.len(), 1);
        assert_eq!(repaired(&other(db)).await.len(), 1);
        assert_eq!(assert_current(db, &other(db)).await, 2);

        // A deletion came between: it has found no reference.
        let dangling = doc! { "_id": 9, "customer": { "_id": 2, "name": "Ann", "v": 0_i64 } };
        assert!(other(db).delete_source(2).await.unwrap().found);
        stored(db).insert_one(dangling).await.unwrap();
        assert_eq!(problems(&other(db)).await, [Problem::SourceMissing]);
        assert_eq!(delete(&other(db), 2, OnReferences::Clear).await, (false, 1));
        assert_eq!(assert_current(db, &other(db)).await, 2);
    })
    .await;
}

/// By a repair. The other tests here repeat the deletion.
#[tokio::test]
async fn a_deletion_that_died_before_the_copies_is_completed() {
    testkit::run(async |db| {
        for rule in [OnReferences::KeepCopy, OnReferences::Clear] {
            let orders = with_customers(db).await;
            for (id, customer) in [(1, 1), (2, 1), (3, 2)] {
                orders.insert(&order(id, customer)).await.unwrap();
            }
            died(db, 0, orders.delete_source(1).on_references(rule)).await;
            let orders = other(db);
            assert_eq!(problems(&orders).await, [Problem::SourceMissing; 2]);
            let repair = orders.repair().on_missing(rule);
            let repaired: Vec<Repaired> = repair.stream().try_collect().await.unwrap();
            assert_eq!(repaired.len(), 2);
            assert!(repaired.iter().all(|repaired| repaired.unrepaired.is_none()));
            assert_eq!(findings(&orders).await, [], "{rule:?}");
            let stored = all(&stored(db)).await;
            for order in &stored[..2] {
                match rule {
                    OnReferences::KeepCopy => {
                        let copy = order.get_document("customer").unwrap();
                        assert!(copy.get_bool("deleted").unwrap() && copy.get_str("name").ok() == Some("Ann"));
                    }
                    _ => assert!(!order.contains_key("customer")),
                }
            }
            assert_eq!(stored[2].get_document("customer").unwrap().len(), 4);
        }
    })
    .await;
}

/// The error has the number of written documents.
#[tokio::test]
async fn an_error_after_the_first_write_reports_that_write() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        // The command with this number of the call fails.
        let fails = |command: usize| {
            db.recorder().clear();
            FailPoint::on(&[]).times(1).error_code(96).plan(db, command)
        };
        let fault = fails(1);
        let error = orders.update_source(1, rename("Bea")).await.unwrap_err();
        fault.end();
        assert_eq!(error.stored_count(), Some(1), "{error:?}");
        assert!(error.to_string().contains("refresh_copies()"), "{error}");
        assert_eq!(judge(db).await.stale, 1);
        assert_eq!(orders.refresh_copies(1).await.unwrap().copies, 1);

        let fault = fails(2);
        let error = orders.insert(&order(8, 1)).await.unwrap_err();
        fault.end();
        assert_eq!(error.stored_count(), Some(1), "{error:?}");
        assert_eq!(assert_current(db, &orders).await, 2);

        let fault = fails(1);
        let error = orders.delete_source(1).on_references(OnReferences::KeepCopy).await;
        fault.end();
        let error = error.unwrap_err();
        assert_eq!(error.stored_count(), Some(1), "{error:?}");
        assert_eq!(delete(&orders, 1, OnReferences::KeepCopy).await, (false, 2));
        assert_eq!(findings(&orders).await, []);
    })
    .await;
}
