//! The state after a dropped future: the caller's session, its transaction, and the documents.

use std::time::Duration;

use futures::future::{Either, select};
use mongo_patterns::{Error, ErrorKind, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::faults::table::dropped::open_transactions;
use support::common::*;
use support::outlier as outlier_support;
use support::outlier::Books;
use support::subset as subset_support;
use support::subset::{Products, review};

/// Drops a future while the server has its next command, and has not executed it.
async fn drop_at_next_command<T>(db: &TestDatabase, call: impl Future<Output = Result<T, Error>>) {
    let sent = db.recorder().round_trips();
    let fault = FailPoint::on(&["find", "update", "insert", "commitTransaction"])
        .times(1)
        .block(Duration::from_millis(50))
        .enable(db)
        .await;
    let call = Box::pin(call);
    match select(call, Box::pin(db.recorder().sent(sent + 1))).await {
        Either::Left(_) => panic!("the call returned"),
        Either::Right(((), call)) => drop(call),
    }
    assert!(fault.met(db, Duration::from_secs(10)).await);
    fault.disable().await;
}

async fn wait_for_no_open_transactions(db: &TestDatabase) {
    while open_transactions(db).await > 0 {
        pause().await;
    }
}

/// A caller that keeps the session cannot use it by mistake as if its transaction were still open.
#[tokio::test]
async fn after_a_dropped_call_the_callers_transaction_accepts_no_writes_and_no_commit() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        let products = subset_support::products(db).await;
        let log = db.collection::<Document>("log");
        log.insert_one(doc! { "_id": 0 }).await.unwrap();
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        drop_at_next_command(db, trades.append(&1, &spread(0)).session(&mut session).into_future()).await;
        wait_for_no_open_transactions(db).await;
        // The router of a sharded cluster would store what is sent in a snapshot session.
        db.recorder().clear();

        log.insert_one(doc! { "_id": 1 })
            .session(&mut session)
            .await
            .unwrap_err();
        log.update_one(doc! {}, doc! { "$set": { "a": 1 } })
            .session(&mut session)
            .await
            .unwrap_err();
        log.delete_one(doc! {}).session(&mut session).await.unwrap_err();
        log.find_one(doc! {}).session(&mut session).await.unwrap_err();
        let insert = products.insert(&review(1)).session(&mut session).await;
        let children = products.children(1).session(&mut session).page().await;
        for error in [
            trades.append(&2, &spread(0)).session(&mut session).await.unwrap_err(),
            trades.counts(&1).session(&mut session).await.unwrap_err(),
            insert.unwrap_err(),
            children.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.to_string().contains("a call in it was dropped"), "{error}");
        }
        session.commit_transaction().await.unwrap_err();
        session.start_transaction().await.unwrap_err();
        assert_eq!(db.recorder().names(), Vec::<String>::new());
        assert_eq!(all(&db.plain_collection("log")).await, [doc! { "_id": 0 }]);
        assert_eq!(trades.counts(&1).await.unwrap().items, 0);
        assert_eq!(trades.counts(&2).await.unwrap().items, 0);
        assert_eq!(products.children(1).page().await.unwrap().items, []);
    })
    .await;
}

/// A process that has not seen the indexes checks them before it writes in the caller's transaction. So a call that is
/// dropped there has no effect on the transaction, and the caller can commit it.
#[tokio::test]
async fn a_call_dropped_before_its_first_command_does_not_change_the_transaction() {
    testkit::run(async |db| {
        let books = outlier_support::books(db).await;
        let full = outlier_support::book(1, 50);
        books.insert(&full).await.unwrap();
        let other: Books = outlier_support::builder(db).build().unwrap();
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        db.recorder().clear();
        let user = "user99".to_owned();
        let fault = FailPoint::on(&["listIndexes"])
            .times(1)
            .block(Duration::from_millis(50));
        let fault = fault.enable(db).await;
        let push = Box::pin(other.push(1, &user).session(&mut session).into_future());
        match select(push, Box::pin(db.recorder().sent(1))).await {
            Either::Left(_) => panic!("the call returned"),
            Either::Right(((), push)) => drop(push),
        }
        fault.disable().await;
        assert_eq!(db.recorder().names(), ["listIndexes"]);
        session.commit_transaction().await.unwrap();
        assert!(!books.get(1).await.unwrap().unwrap().has_extras);
    })
    .await;
}

/// Without a drop, a call in the caller's transaction sends the same commands as a call outside.
#[tokio::test]
async fn a_call_in_the_callers_transaction_sends_no_additional_command() {
    testkit::run(async |db| {
        let trades = trades(db).await;
        trades.append(&1, &spread(0)).await.unwrap();
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        db.recorder().clear();
        for n in 1..4 {
            trades.append(&1, &spread(n)).session(&mut session).await.unwrap();
        }
        session.commit_transaction().await.unwrap();
        drop((session, trades));
        assert_eq!(
            db.recorder().names(),
            ["update", "update", "update", "commitTransaction"]
        );
    })
    .await;
}

/// A call in a session without a transaction runs its own transaction, and the session sees its writes.
#[tokio::test]
async fn a_session_without_a_transaction_is_causally_consistent_with_the_calls_transaction() {
    testkit::run(async |db| {
        let products = subset_support::products(db).await;
        let mut session = db.client().start_session().await.unwrap();
        let id = session.id().clone();
        products.insert(&review(1)).session(&mut session).await.unwrap();
        assert_eq!(*session.id(), id);
        let seen = session
            .operation_time()
            .expect("the session has the time of the call's transaction");
        let commit = db
            .recorder()
            .commands()
            .into_iter()
            .rfind(|command| command.name == "commitTransaction");
        let committed = commit.unwrap().reply.unwrap().get_timestamp("operationTime").unwrap();
        assert!(seen >= committed);
    })
    .await;
}

/// The runtime can end while a dropped command is on its way. The server then aborts the transaction, and nothing
/// panics.
#[test]
fn a_call_can_be_dropped_with_its_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(testkit::run(async |db| {
        let trades = trades(db).await;
        let uri = db.server().uri().to_owned();
        let name = db.database().name().to_owned();
        trades.append(&1, &spread(0)).await.unwrap();
        let thread = std::thread::spawn(move || {
            let short = tokio::runtime::Runtime::new().unwrap();
            let client = short.block_on(mongodb::Client::with_uri_str(uri)).unwrap();
            let trades: Trades = Trades::builder(client.database(&name).collection::<Document>("trades"))
                .key_field("customerId")
                .items_field("history")
                .time_field("date")
                .build()
                .unwrap();
            let mut call = Box::pin(async move {
                let mut session = client.start_session().await.unwrap();
                session.start_transaction().await.unwrap();
                trades.append(&1, &spread(1)).session(&mut session).await.map(drop)
            });
            let short_time = async { tokio::time::timeout(Duration::from_micros(1500), call.as_mut()).await };
            let _ = short.block_on(short_time);
            drop(short);
            drop(call);
        });
        thread.join().unwrap();
    }));
}

/// Callers with a short timeout each, and after each one that waits: no lock or transaction of theirs blocks it, and the pool
/// has not lost a connection.
#[tokio::test]
async fn callers_that_time_out_leave_nothing_locked() {
    testkit::run(async |db| {
        let mut options = mongodb::options::ClientOptions::parse(db.server().uri()).await.unwrap();
        options.max_pool_size = Some(2);
        db.recorder().attach(&mut options);
        let client = mongodb::Client::with_options(options).unwrap();
        let once = RetryPolicy::default().with_max_attempts(1);
        let builder = subset_support::builder(&client.database(db.database().name()));
        let products: Products = subset_support::ready(db, builder.retry(once)).await;
        let mut dropped = 0;
        for n in 1..100 {
            let after = Duration::from_micros(74 * u64::try_from(n).unwrap());
            let child = review(n);
            let insert = products.insert(&child).into_future();
            dropped += u32::from(tokio::time::timeout(after, insert).await.is_err());
            let next = review(-n);
            ends("the next call", async { products.insert(&next).await })
                .await
                .expect("the next call succeeds in one attempt");
        }
        assert!(dropped > 5, "{dropped} were dropped");
        wait_for_no_open_transactions(db).await;
    })
    .await;
}
