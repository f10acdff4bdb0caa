//! Calls in a session of the caller, which are dropped.

use std::time::Duration;

use mongo_patterns::mongodb::ClientSession;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};

use support::lanes::*;

/// The time-out of a request.
const TIME_OUT: Duration = Duration::from_millis(300);

/// Runs an operation in a session of the caller.
async fn run(
    operation: &Operation,
    of: &Repositories,
    session: &mut ClientSession,
    document: i32,
    n: i32,
) -> Result<(), Error> {
    match operation.name {
        "append" => of.trades.append(&document, &trade(n)).session(session).await.map(drop),
        "push" => of.books.push(document, &user(n)).session(session).await.map(drop),
        "insert" => {
            let review = review(document, n);
            of.products.insert(&review).session(session).await.map(drop)
        }
        "update" => {
            let insure = doc! { "$push": { "itemsInsured": n } };
            of.policies.update(document, insure).session(session).await.map(drop)
        }
        "update_source" => {
            let rename = doc! { "$set": { "name": user(n) } };
            let update = of.orders.update_source(document, rename);
            update.session(session).await.map(drop)
        }
        other => panic!("{other}"),
    }
}

/// Checks that the driver and the repository refuse to write in the session of a dropped call.
async fn check_refused(db: &TestDatabase, operation: &Operation, of: &Repositories, session: &mut ClientSession) {
    let log = db.collection::<Document>("log");
    log.insert_one(doc! {}).session(&mut *session).await.unwrap_err();
    let write = run(operation, of, session, FREE[0], FIRST + 100).await;
    write.unwrap_err();
    session.start_transaction().await.unwrap_err();
}

async fn check_without_transaction(operation: &Operation) {
    testkit::run(async |db| {
        let repositories = prepare(db, operation).await;
        let sends_in_session = ["append", "push", "update_source"].contains(&operation.name);
        let holder = Holder::hold(db, operation, HELD).await;
        for round in 1..=3 {
            let mut session = db.client().start_session().await.unwrap();
            let call = run(operation, &repositories, &mut session, HELD, FIRST + round);
            // The other calls wait for the first, or run transactions of their own.
            if round > 1 || !sends_in_session {
                let dropped = tokio::time::timeout(TIME_OUT, call).await;
                assert!(dropped.is_err(), "round {round}: {dropped:?}");
            } else {
                drop_in_flight(db, call).await;
                check_refused(db, operation, &repositories, &mut session).await;
            }

            let mut other = db.client().start_session().await.unwrap();
            let call = run(operation, &repositories, &mut other, FREE[0], FIRST + round);
            ends("a call in another session", call).await.unwrap();
            let call = operation.run(&repositories, FREE[1], FIRST + round);
            ends("a call without a session", call).await.unwrap();
            assert!(on_server_for(db, HELD).await <= 1, "round {round}");
        }
        holder.release().await;
        let mut session = db.client().start_session().await.unwrap();
        let call = run(operation, &repositories, &mut session, HELD, FIRST + 50);
        ends("a call after the holder", call).await.unwrap();
        if operation.name != "update_source" {
            let stored = stored(db, operation, HELD).await;
            assert!(stored.len() <= 2 && stored.contains(&(FIRST + 50)), "{stored:?}");
        }
    })
    .await;
}

each! {
    check_without_transaction;
    without_a_transaction_of_append: "append";
    without_a_transaction_of_push: "push";
    without_a_transaction_of_insert: "insert";
    without_a_transaction_of_update: "update";
    without_a_transaction_of_update_source: "update_source";
}

/// The transaction has written a document, and waits for the reply of another command when the call is dropped.
async fn check_in_transaction(operation: &Operation) {
    testkit::run(async |db| {
        let repositories = prepare(db, operation).await;
        let [first, second] = FREE;
        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let call = run(operation, &repositories, &mut session, first, FIRST + 1);
        call.await.unwrap();
        let block = FailPoint::on(&["update", "findAndModify", "insert"]).times(1);
        let blocked = block.block(Duration::from_secs(1)).enable(db).await;
        tokio::select! {
            called = run(operation, &repositories, &mut session, second, FIRST + 2) => panic!("{called:?}"),
            met = blocked.met(db, STUCK) => assert!(met),
        }
        blocked.disable().await;
        check_refused(db, operation, &repositories, &mut session).await;
        session.commit_transaction().await.unwrap_err();

        // The documents of the transaction are free.
        for document in FREE {
            let call = operation.run(&repositories, document, FIRST + 3);
            ends("a call after the transaction", call).await.unwrap();
            let stored = stored(db, operation, document).await;
            assert_eq!(stored, [FIRST, FIRST + 3], "of {document}");
        }
        let commands = db.recorder().names();
        let aborts = commands.iter().filter(|name| *name == "abortTransaction");
        assert!(aborts.count() >= 1, "{commands:?}");
    })
    .await;
}

each! {
    check_in_transaction;
    in_a_transaction_of_append: "append";
    in_a_transaction_of_insert: "insert";
    in_a_transaction_of_update: "update";
}

/// The error says what to do.
#[tokio::test]
async fn a_transaction_in_the_session_of_a_dropped_call_is_refused() {
    testkit::run(async |db| {
        let (append, update) = (operation("append"), operation("update"));
        prepare(db, append).await;
        let repositories = prepare(db, update).await;
        let holder = Holder::hold(db, append, HELD).await;
        let mut session = db.client().start_session().await.unwrap();
        let call = run(append, &repositories, &mut session, HELD, FIRST + 1);
        drop_in_flight(db, call).await;
        let refused = run(update, &repositories, &mut session, FREE[0], FIRST + 2);
        let error = refused.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("start another session"), "{error}");
        holder.release().await;
    })
    .await;
}
