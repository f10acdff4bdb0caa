//! How long a transaction of ours is tried: as long as the retry policy says, and not the driver's two minutes.

use std::time::Duration;

use mongo_patterns::{ErrorKind, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, CommandRecorder, FailPoint, Mongod, MongodOptions, TestDatabase};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;

use crate::common::support::*;

/// A repository that tries so many times, with two full pages of items that have ids.
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
async fn a_connection_that_stays_broken_ends_a_transaction_after_the_attempts() {
    testkit::run(async |db| {
        let trades = two_pages(db, 2).await;
        // In the transaction alone: a look at the item comes before it.
        let fault = FailPoint::on(&["delete"]).close_connection().enable(db).await;
        let error = trades.remove_item(&123, 3_i64).await.unwrap_err();
        fault.disable().await;
        assert_eq!(
            (error.kind(), error.attempts()),
            (ErrorKind::Network, Some(2)),
            "{error:?}"
        );
        assert_eq!(error.operation(), Some("remove_item"));
        assert_eq!(count(db, "delete"), 2);
        assert_eq!(trades.counts(&123).await.unwrap().items, 20);
        assert!(trades.remove_item(&123, 3_i64).await.unwrap().found);
    })
    .await;
}

#[tokio::test]
async fn conflicts_that_go_on_end_a_transaction_after_the_attempts() {
    testkit::run(async |db| {
        let trades = two_pages(db, 3).await;
        let fault = FailPoint::on(&["delete"]).error_code(112).enable(db).await;
        let error = trades.remove_item(&123, 3_i64).await.unwrap_err();
        fault.disable().await;
        assert_eq!(
            (error.kind(), error.attempts()),
            (ErrorKind::Contention, Some(3)),
            "{error:?}"
        );
        assert!(!error.is_outcome_unknown());
        assert_eq!(count(db, "delete"), 3);
        assert_eq!(trades.counts(&123).await.unwrap().items, 20);
    })
    .await;
}

/// Nobody knows then whether it is done, and the error says so.
#[tokio::test]
async fn a_commit_that_nobody_answers_is_asked_for_as_often_as_the_policy_says() {
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
async fn a_commit_that_is_answered_later_is_done() {
    testkit::run(async |db| {
        let trades = two_pages(db, 2).await;
        // Both times that the driver asks by itself.
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

/// A caller who looks for a server for a short time gets the error after a short time.
#[tokio::test]
async fn a_server_that_goes_away_ends_a_transaction_when_the_client_stops_to_look_for_one() {
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
