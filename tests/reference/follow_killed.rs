//! A follower that is interrupted or fails: the next one resumes, and misses nothing.

use std::sync::Arc;
use std::time::Duration;

use mongo_patterns::reference::{Followed, OnReferences};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};
use tokio::sync::Semaphore;

use crate::common::followers::kill_after;
use crate::common::support::end_transactions;
use crate::reference::follow_concurrent::{Program, remove_others};
use crate::reference::follow_support::*;
use crate::reference::support::*;

const COMMANDS: [&str; 7] = [
    "hello",
    "listIndexes",
    "find",
    "aggregate",
    "getMore",
    "findAndModify",
    "update",
];

/// Returns a repository that has checked nothing yet, as in a new process.
fn restarted(db: &TestDatabase) -> Orders {
    of_all_kinds(db).build().unwrap()
}

async fn follow_keeping(orders: &Orders) -> Followed {
    let follow = orders.follow(NAME).on_missing(OnReferences::KeepCopy);
    follow.run_until_current().await.unwrap()
}

/// Follows until this number of commands was sent, and is then dropped. Returns whether it had ended before.
async fn drop_after(db: &TestDatabase, commands: u32) -> bool {
    let orders = restarted(db);
    db.recorder().clear();
    let slow = FailPoint::on(&COMMANDS).skip(commands).block(Duration::from_millis(20));
    let fault = slow.enable(db).await;
    let sent = db.recorder().sent(commands as usize + 1);
    let follow = orders
        .follow(NAME)
        .on_missing(OnReferences::KeepCopy)
        .run_until_current();
    let ended = tokio::select! {
        biased;
        () = sent => false,
        followed = async { follow.await } => {
            followed.unwrap();
            true
        }
    };
    fault.disable().await;
    ended
}

/// Writes of every kind: source 1 is renamed, 2 is replaced, and 3 is deleted or inserted again.
async fn write_plainly(db: &TestDatabase, round: u32) {
    let name = round.to_string();
    update_plainly(db, 1, rename(&name)).await;
    customers(db)
        .replace_one(doc! { "_id": 2 }, customer(2, &name))
        .await
        .unwrap();
    match round % 2 {
        0 => drop(customers(db).delete_one(doc! { "_id": 3 }).await.unwrap()),
        _ => drop(customers(db).insert_one(customer(3, &name)).await.unwrap()),
    }
    stored(db).replace_one(doc! { "_id": 1 }, order(1, 1)).await.unwrap();
    let added = doc! { "$set": { "products": [{ "_id": 1 }, { "_id": 3 }], "customer._id": 2 } };
    stored(db).update_one(doc! { "_id": 2 }, added).await.unwrap();
}

async fn three(db: &TestDatabase) {
    stored(db).insert_many((1..=3).map(|id| order(id, id))).await.unwrap();
    follow_keeping(&restarted(db)).await;
}

async fn assert_followed(db: &TestDatabase, context: &str) {
    let end = follow_keeping(&restarted(db)).await;
    assert_eq!(end.repaired, 0, "{context}");
    assert_eq!(findings(&restarted(db)).await, [], "{context}");
}

#[tokio::test]
async fn a_follower_dropped_at_any_command_is_resumed() {
    testkit::run(async |db| {
        followed(db, of_all_kinds(db)).await;
        three(db).await;
        for commands in 0.. {
            write_plainly(db, commands).await;
            let ended = drop_after(db, commands).await;
            assert_followed(db, &format!("dropped after {commands}")).await;
            if ended {
                assert!(commands > 20, "{commands}");
                break;
            }
            assert!(commands < 200);
        }
    })
    .await;
}

/// A permanent error at each of its commands ends it, and the next call resumes.
#[tokio::test]
async fn a_follower_that_fails_at_any_command_can_be_called_again() {
    testkit::run(async |db| {
        followed(db, of_all_kinds(db)).await;
        three(db).await;
        let mut failed = 0;
        for commands in 0.. {
            write_plainly(db, commands).await;
            let fault = FailPoint::on(&COMMANDS).skip(commands).error_code(96).enable(db).await;
            let follow = restarted(db);
            let follow = follow.follow(NAME).on_missing(OnReferences::KeepCopy);
            let outcome = follow.run_until_current().await;
            fault.disable().await;
            failed += u32::from(outcome.is_err());
            // A commit that failed has left its transaction open.
            end_transactions(db).await;
            assert_followed(db, &format!("failed after {commands}: {outcome:?}")).await;
            if outcome.is_ok() {
                break;
            }
        }
        assert!(failed >= 12, "{failed}");
    })
    .await;
}

/// Broken connections and a failover, more often than the driver retries.
#[tokio::test]
async fn a_transient_error_does_not_end_it() {
    testkit::run(async |db| {
        followed(db, of_all_kinds(db)).await;
        three(db).await;
        let mut round = 1;
        for command in ["getMore", "aggregate", "find", "findAndModify", "update"] {
            for passing in [
                FailPoint::on(&[command]).times(5).close_connection(),
                FailPoint::on(&[command]).times(3).error_code(262),
            ] {
                round += 1;
                write_plainly(db, round).await;
                let fault = passing.enable(db).await;
                follow_keeping(&restarted(db)).await;
                fault.disable().await;
                assert_followed(db, command).await;
            }
        }
    })
    .await;
}

/// Processes that are killed at any moment while another program and a repository write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_are_resumed() {
    testkit::run(async |db| {
        let orders = followed(db, of_all_kinds(db)).await;
        three(db).await;
        // Some writes of both for each printed line, so that a slow process does not meet thousands.
        let allowed = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        let plain = tokio::spawn({
            let (mut program, allowed) = (Program::new(db, 7), Arc::clone(&allowed[0]));
            async move {
                while let Ok(permit) = allowed.acquire().await {
                    permit.forget();
                    program.write().await;
                }
            }
        });
        let own = tokio::spawn({
            let (orders, allowed) = (restarted(db), Arc::clone(&allowed[1]));
            async move {
                let mut written = 0;
                while let Ok(permit) = allowed.acquire().await {
                    permit.forget();
                    // The other program deletes sources.
                    drop(
                        orders
                            .update_source(written % 4 + 1, rename(&format!("r{written}")))
                            .await,
                    );
                    written += 1;
                }
            }
        });
        for lines in 1..=5 {
            let allowed = allowed.clone();
            let allow = move || allowed.iter().for_each(|writer| writer.add_permits(20));
            kill_after(lines, env!("CARGO_BIN_EXE_follow-orders"), NAME, db, allow).await;
        }
        allowed.iter().for_each(|writer| writer.close());
        plain.await.unwrap();
        own.await.unwrap();
        assert_eq!(follow_keeping(&orders).await.repaired, 0);
        remove_others(db).await;
        assert_eq!(findings(&orders).await, []);
        let names: Vec<Document> = records(db).await;
        assert_eq!(names.len(), 1);
    })
    .await;
}
