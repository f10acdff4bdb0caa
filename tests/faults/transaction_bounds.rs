//! The retry policy bounds the retries of our transactions, not the driver's two minutes.

use std::time::Duration;

use mongo_patterns::{ErrorKind, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, CommandRecorder, FailPoint, Mongod, MongodOptions, TestDatabase};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;

use support::common::*;
use support::history;

/// Returns a repository with that number of attempts, and stores two full pages of items with ids.
async fn two_pages(db: &TestDatabase, attempts: u32) -> Trades {
    let retry = RetryPolicy::default().with_max_attempts(attempts);
    let trades = ready(db, builder(db).item_id_field("n").retry(retry)).await;
    let items: Vec<Trade> = (0..20).map(spread).collect();
    trades.append_many(&123, &items).await.unwrap();
    db.recorder().clear();
    trades
}

fn count(db: &TestDatabase, name: &str) -> usize {
    db.recorder().names().iter().filter(|command| *command == name).count()
}

#[tokio::test]
async fn a_permanent_fault_ends_a_transaction_after_the_attempts() {
    testkit::run(async |db| {
        // In the transaction alone: a read of the item precedes it.
        let delete = || FailPoint::on(&["delete"]);
        for (fault, attempts, kind) in [
            (delete().close_connection(), 2, ErrorKind::Network),
            (delete().error_code(112), 3, ErrorKind::Contention),
        ] {
            plain(db).delete_many(doc! {}).await.unwrap();
            let trades = two_pages(db, attempts).await;
            let fault = fault.enable(db).await;
            let error = trades.remove_item(&123, 3_i64).await.unwrap_err();
            fault.disable().await;
            assert_eq!((error.kind(), error.attempts()), (kind, Some(attempts)), "{error:?}");
            assert_eq!(error.operation(), Some("remove_item"));
            assert!(kind == ErrorKind::Network || !error.is_outcome_unknown(), "{error:?}");
            assert_eq!(count(db, "delete"), attempts as usize);
            assert_eq!(trades.counts(&123).await.unwrap().items, 20);
            assert!(trades.remove_item(&123, 3_i64).await.unwrap().found);
        }
    })
    .await;
}

/// The outcome is unknown then, and the error reports that.
#[tokio::test]
async fn an_unanswered_commit_is_retried_as_often_as_the_policy_allows() {
    testkit::run(async |db| {
        for (fault, left) in [
            (FailPoint::on(&["commitTransaction"]).close_connection(), 20),
            (FailPoint::on(&["commitTransaction"]).write_concern_error(64), 19),
        ] {
            plain(db).delete_many(doc! {}).await.unwrap();
            let trades = two_pages(db, 2).await;
            let fault = fault.enable(db).await;
            let error = trades.remove_item(&123, 3_i64).await.unwrap_err();
            fault.disable().await;
            assert!(error.is_outcome_unknown(), "{error:?}");
            assert_eq!(
                (error.kind(), error.attempts()),
                (ErrorKind::Network, Some(2)),
                "{error:?}"
            );
            end_transactions(db).await;
            assert_eq!(trades.counts(&123).await.unwrap().items, left);
        }
    })
    .await;
}

#[tokio::test]
async fn a_commit_that_is_answered_late_succeeds() {
    testkit::run(async |db| {
        let trades = two_pages(db, 2).await;
        // Both attempts of the driver's own.
        let fault = FailPoint::on(&["commitTransaction"])
            .times(2)
            .close_connection()
            .enable(db)
            .await;
        assert!(trades.remove_item(&123, 3_i64).await.unwrap().found);
        fault.disable().await;
        assert_eq!(count(db, "commitTransaction"), 3);
        assert_eq!(trades.counts(&123).await.unwrap().items, 19);
    })
    .await;
}

/// A client with a short server selection timeout returns the error after a short time.
#[tokio::test]
async fn a_stopped_server_ends_a_transaction_at_the_server_selection_timeout() {
    let mut mongod = Mongod::start(MongodOptions::new()).await.unwrap();
    let recorder = CommandRecorder::new();
    let mut options = ClientOptions::parse(mongod.uri()).await.unwrap();
    options.server_selection_timeout = Some(Duration::from_millis(300));
    recorder.attach(&mut options);
    let client = Client::with_options(options).unwrap();
    let trades = Trades::builder(client.database("test").collection::<Document>("trades"))
        .key_field("customerId")
        .items_field("history")
        .item_id_field("n")
        .build()
        .unwrap();
    trades.ensure_indexes().await.unwrap();
    let items: Vec<Trade> = (0..20).map(spread).collect();
    trades.append_many(&123, &items).await.unwrap();

    let blocked = doc! { "failCommands": ["delete"], "blockConnection": true, "blockTimeMS": 600_000 };
    let slow = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": blocked };
    client.database("admin").run_command(slow).await.unwrap();
    recorder.clear();
    let mut removal = trades.remove_item(&123, 3_i64).into_future();
    let is_sent = || recorder.names().iter().any(|name| name == "delete");
    loop {
        let sent = recorder.round_trips();
        if is_sent() {
            break;
        }
        tokio::select! {
            () = recorder.sent(sent + 1) => {}
            removed = &mut removal => panic!("{removed:?}"),
        }
    }
    mongod.kill().await.unwrap();
    let error = removal.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServerSelection, "{error:?}");
    let deletes = recorder.names().into_iter().filter(|name| name == "delete");
    assert_eq!(deletes.count(), 1);
}

/// The server keeps the locks of a killed client until the time limit of its transaction.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn an_update_outlives_the_transaction_of_a_killed_client() {
    let limit = MongodOptions::new().argument("--setParameter=transactionLifetimeLimitSeconds=2");
    let mongod = Mongod::start(limit).await.unwrap();
    let recorder = CommandRecorder::new();
    let mut options = ClientOptions::parse(mongod.uri()).await.unwrap();
    let killed = Client::with_options(options.clone()).unwrap();
    recorder.attach(&mut options);
    let client = Client::with_options(options).unwrap();
    let policies = history::builder(&client.database("test")).build().unwrap();
    policies.ensure_indexes().await.unwrap();
    policies.insert(&history::policy(1)).await.unwrap();

    let mut session = killed.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let locked = killed.database("test").collection::<Document>("currentPolicies");
    let touch = doc! { "$set": { "touched": true } };
    let touched = locked.update_one(doc! {}, touch).session(&mut session).await.unwrap();
    assert_eq!(touched.modified_count, 1);
    recorder.clear();
    let updated = policies
        .update(1, doc! { "$set": { "customerName": "Ann" } })
        .await
        .unwrap();
    assert_eq!(updated.revision, 2);
    let attempts = recorder.names().iter().filter(|name| *name == "findAndModify").count();
    assert!((2..40).contains(&attempts), "{attempts}");
    let stored = locked.find_one(doc! {}).await.unwrap().unwrap();
    assert!(!stored.contains_key("touched"), "{stored}");
}
