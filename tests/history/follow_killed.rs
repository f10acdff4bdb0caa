//! A follower that is interrupted or fails: the next one resumes, misses nothing, and stores nothing twice.

use std::time::Duration;

use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};

use crate::common::followers::kill_after;
use crate::common::pace::Pace;
use crate::common::support::{end_transactions, until};
use crate::history::follow_support::*;
use crate::history::support::*;

const COMMANDS: [&str; 11] = [
    "hello",
    "listIndexes",
    "listCollections",
    "collMod",
    "find",
    "aggregate",
    "getMore",
    "findAndModify",
    "insert",
    "update",
    "commitTransaction",
];

/// Follows until this number of commands was sent, and is then dropped. Returns whether it had ended before.
async fn drop_after(db: &TestDatabase, commands: u32) -> bool {
    let policies = restarted(db);
    db.recorder().clear();
    let slow = FailPoint::on(&COMMANDS).skip(commands).block(Duration::from_millis(20));
    let fault = slow.enable(db).await;
    let sent = db.recorder().sent(commands as usize + 1);
    let follow = policies.follow(NAME).enable_pre_images().run_until_current();
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

/// Writes of every kind: policy 1 gets two updates, policy 2 is deleted and inserted again, policy 3 is replaced.
async fn write_plainly(db: &TestDatabase, round: u32) {
    for n in 0..2 {
        push_plainly(db, 1, &format!("{round}-{n}")).await;
    }
    let current = current(db);
    current.delete_one(doc! { "policyId": 2 }).await.unwrap();
    let of = |id: i32| {
        let mut policy = policy(id);
        policy.insert("round", round);
        policy
    };
    current.insert_one(of(2)).await.unwrap();
    current.replace_one(doc! { "policyId": 3 }, of(3)).await.unwrap();
}

async fn three(policies: &Policies) {
    for id in 1..=3 {
        policies.insert(&policy(id)).await.unwrap();
    }
}

/// Dropped at each of its commands. The revisions have the last state of each round, and never one twice.
#[tokio::test]
async fn a_follower_dropped_at_any_command_is_resumed() {
    testkit::run(async |db| {
        let policies = followed(db).await;
        three(&policies).await;
        follow(&policies).await;
        for commands in 0.. {
            write_plainly(db, commands).await;
            let ended = drop_after(db, commands).await;
            let end = follow(&restarted(db)).await;
            assert_eq!(end.repaired, 0);
            assert_recorded(db, &policies, &format!("dropped after {commands}: {end:?}")).await;
            if ended {
                break;
            }
            assert!(commands < 80);
        }
        let lengths: Vec<usize> = copies(db, 1).await.iter().map(|copy| items(copy).len()).collect();
        let once: Vec<usize> = (0..lengths.len()).collect();
        assert_eq!(lengths, once, "each state is stored once");
        let rounds = copies(db, 3).await;
        let rounds: Vec<Option<i64>> = rounds
            .iter()
            .map(|copy| copy.contains_key("round").then(|| number(copy, "round")))
            .collect();
        assert!(rounds.windows(2).all(|pair| pair[0] < pair[1]), "{rounds:?}");
    })
    .await;
}

/// A permanent error at each of its commands ends it, and the next call resumes.
#[tokio::test]
async fn a_follower_that_fails_at_any_command_can_be_called_again() {
    testkit::run(async |db| {
        let policies = followed(db).await;
        three(&policies).await;
        follow(&policies).await;
        let mut failed = 0;
        for commands in 0.. {
            write_plainly(db, commands).await;
            let fault = FailPoint::on(&COMMANDS).skip(commands).error_code(96).enable(db).await;
            let outcome = restarted(db).follow(NAME).run_until_current().await;
            fault.disable().await;
            failed += u32::from(outcome.is_err());
            // A commit that failed has left its transaction open.
            end_transactions(db).await;
            follow(&restarted(db)).await;
            assert_recorded(db, &policies, &format!("failed after {commands}: {outcome:?}")).await;
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
        let policies = followed(db).await;
        three(&policies).await;
        follow(&policies).await;
        let mut round = 0;
        for command in [
            "getMore",
            "aggregate",
            "find",
            "findAndModify",
            "insert",
            "update",
            "commitTransaction",
        ] {
            for passing in [
                FailPoint::on(&[command]).times(5).close_connection(),
                FailPoint::on(&[command]).times(3).error_code(262),
            ] {
                round += 1;
                write_plainly(db, round).await;
                let fault = passing.enable(db).await;
                restarted(db).follow(NAME).run_until_current().await.unwrap();
                fault.disable().await;
                assert_recorded(db, &policies, command).await;
            }
        }
    })
    .await;
}

/// A process that is killed in a transaction leaves it open: its documents are locked until the server ends it.
#[tokio::test]
async fn the_transaction_of_a_killed_process_is_waited_for() {
    wait_for_a_killed_process(async |db, killed| {
        // As after 60 seconds, when the follower has met it.
        until("the follower", async || has_met(db)).await;
        let admin = db.plain_client().database("admin");
        admin.run_command(doc! { "killSessions": [killed] }).await.unwrap();
    })
    .await;
}

/// The same, until the server ends it by itself.
#[tokio::test]
#[ignore = "long: cargo xtask ci --full"]
async fn the_transaction_of_a_killed_process_is_waited_for_until_the_server_ends_it() {
    wait_for_a_killed_process(async |_, _| {}).await;
}

fn has_met(db: &TestDatabase) -> bool {
    db.recorder().names().contains(&"abortTransaction".to_owned())
}

async fn wait_for_a_killed_process(end: impl AsyncFnOnce(&TestDatabase, Document)) {
    testkit::run(async |db| {
        let policies = followed(db).await;
        three(&policies).await;
        follow(&policies).await;
        push_plainly(db, 1, "a").await;
        let current = current(db);
        let mut killed = current.client().start_session().await.unwrap();
        killed.start_transaction().await.unwrap();
        let locked = current.update_one(doc! { "policyId": 1 }, push("b"));
        locked.session(&mut killed).await.unwrap();
        let next = restarted(db);
        let (followed, ()) = tokio::join!(follow(&next), end(db, killed.id().clone()));
        assert_eq!((followed.written, followed.repaired), (1, 0));
        assert!(has_met(db), "it has met the other transaction");
        assert!(killed.commit_transaction().await.is_err(), "the server has ended it");
        assert_recorded(db, &policies, "after it").await;
    })
    .await;
}

/// Processes that are killed at any moment while another program and a repository write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_are_resumed() {
    testkit::run(async |db| {
        let policies = followed(db).await;
        three(&policies).await;
        // Some writes of both for each printed line, so that a slow process does not meet thousands.
        let paces = [(); 2].map(|()| Pace::of(0));
        let plain = tokio::spawn({
            let (current, pace) = (current(db), paces[0].clone());
            async move {
                let mut written = 0;
                while pace.next().await {
                    let filter = doc! { "policyId": written % 3 + 1 };
                    current.update_one(filter, push(&format!("p{written}"))).await.unwrap();
                    written += 1;
                }
                written
            }
        });
        let own = tokio::spawn({
            let database = db.plain_client().database(db.database().name());
            let policies = builder(&database).build().unwrap();
            let pace = paces[1].clone();
            async move {
                let mut written = 0;
                while pace.next().await {
                    policies
                        .update(written % 3 + 1, push(&format!("r{written}")))
                        .await
                        .unwrap();
                    written += 1;
                }
                written
            }
        });
        for lines in 1..=5 {
            let paces = paces.clone();
            let allow = move || paces.iter().for_each(|pace| pace.add(20));
            kill_after(lines, env!("CARGO_BIN_EXE_follow-policies"), NAME, db, allow).await;
        }
        paces.iter().for_each(Pace::end);
        let written = plain.await.unwrap() + own.await.unwrap();
        let followed = follow(&policies).await;
        assert_eq!(followed.repaired, 0);
        assert_recorded(db, &policies, "after five killed processes").await;
        let now: Vec<Document> = crate::common::support::all(&current(db)).await;
        assert_eq!(now.iter().map(|now| items(now).len()).sum::<usize>(), written as usize);
    })
    .await;
}
