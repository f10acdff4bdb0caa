//! A follower that is dropped, fails or is killed: the next one resumes, misses nothing, and does nothing twice. It is dropped
//! and fails by turns, at every third command. The table of faults has all commands.

use std::time::Duration;

use mongo_patterns_testkit::FailPoint;
use mongodb::bson::{Document, doc};

use super::for_each;
use super::model::{Case, How, NAME};
use support::common::end_transactions;
use support::followers::kill_after;
use support::pace::Pace;

/// All commands of followers.
#[rustfmt::skip] // several in a line
const COMMANDS: [&str; 12] = [
    "hello", "listIndexes", "listCollections", "collMod", "find", "aggregate", "getMore", "findAndModify", "insert",
    "update", "delete", "commitTransaction",
];

impl Case<'_> {
    /// Follows until this number of commands was sent, and is then dropped. Returns whether it had ended before.
    async fn drop_after(&self, commands: usize) -> bool {
        let db = self.db;
        db.recorder().clear();
        let sent = db.recorder().sent(commands + 1);
        tokio::select! {
            biased;
            () = sent => false,
            followed = self.follow(How::default()) => {
                followed.unwrap();
                true
            }
        }
    }
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_follower_dropped_after_a_command_is_resumed() {
    for_each(async |db, follower| {
        let case = Case { db, follower };
        case.begin().await;
        let mut round = 0;
        for is_first in [true, false] {
            for commands in (0..).step_by(6) {
                round += 1;
                (follower.write_plainly)(db, round).await;
                if is_first {
                    let positions = db.plain_collection::<Document>("mongo_patterns");
                    positions.delete_many(doc! { "_id.kind": "follower" }).await.unwrap();
                }
                let ended = case.drop_after(commands).await;
                let followed = case.until_current().await;
                assert!(is_first || followed.repaired == 0, "{}", follower.name);
                let context = format!("{}, dropped after {commands}, {is_first}", follower.name);
                (follower.check)(db, &context).await;
                if ended {
                    assert!(commands > 8, "{context}");
                    break;
                }
                assert!(commands < 200, "{context}");
            }
        }
    })
    .await;
}

/// A permanent error ends it, and the next call resumes.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_follower_that_fails_at_a_command_can_be_called_again() {
    for_each(async |db, follower| {
        let case = Case { db, follower };
        case.begin().await;
        let mut failed = 0;
        for commands in (3..).step_by(6) {
            (follower.write_plainly)(db, commands).await;
            db.recorder().clear();
            let fault = FailPoint::on(&COMMANDS).error_code(96).plan(db, commands as usize);
            let outcome = case.follow(How::default()).await;
            fault.end();
            let context = format!("{}, failed after {commands}: {outcome:?}", follower.name);
            if let Err(error) = &outcome {
                failed += 1;
                assert_eq!(error.operation(), Some("follow"), "{context}");
            }
            // A commit that failed has left its transaction open.
            end_transactions(db).await;
            assert_eq!(case.until_current().await.repaired, 0, "{context}");
            (follower.check)(db, &context).await;
            if outcome.is_ok() {
                break;
            }
        }
        assert!(failed >= 2, "{}: {failed}", follower.name);
    })
    .await;
}

/// Broken connections and other errors that pass, as often as the driver tries a command, or more often.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_transient_error_does_not_end_it() {
    for_each(async |db, follower| {
        let case = Case { db, follower };
        case.begin().await;
        let mut round = 0;
        let commands = [
            "getMore",
            "aggregate",
            "find",
            "findAndModify",
            "insert",
            "update",
            "commitTransaction",
        ];
        for (command, turn) in commands.into_iter().zip(follower.name.len()..) {
            let on = FailPoint::on(&[command]);
            // By turns, with other ones for another follower: tests with faults wait for each other.
            let is_even = turn % 2 == 0;
            let mut passing = vec![match is_even {
                true => on.clone().times(2).close_connection(),
                false => on.clone().times(3).error_code(262),
            }];
            if ["find", "aggregate", "getMore"].contains(&command) {
                // Of a node that restarts, and of one that rolls back its own writes, which kills queries.
                let code = if is_even { 13436 } else { 175 };
                passing.push(on.times(2).error_code(code));
            }
            for passing in passing {
                round += 1;
                (follower.write_plainly)(db, round).await;
                let fault = passing.enable(db).await;
                assert_eq!(case.until_current().await.repaired, 0, "{command}");
                fault.disable().await;
                (follower.check)(db, command).await;
            }
        }
        // With a retry time, its error has the number of attempts.
        let fault = FailPoint::on(&["aggregate"]).error_code(262).enable(db).await;
        let error = case.follow(How {
            is_endless: true,
            // Longer than a slow attempt.
            max_retry_time: Some(Duration::from_millis(1500)),
            ..How::default()
        });
        let error = error.await.unwrap_err();
        fault.disable().await;
        assert!(
            error.attempts() >= Some(2) && error.as_driver_error().is_some(),
            "{error:?}"
        );
    })
    .await;
}

/// Processes that are killed at any moment while another program and a repository write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn killed_processes_are_resumed() {
    for_each(async |db, follower| {
        let case = Case { db, follower };
        case.begin().await;
        let database = case.plain();
        // Some writes of both for each printed line, so that a slow process does not meet thousands.
        let paces = [(); 2].map(|()| Pace::of(0));
        let plain = async {
            let mut rounds = 0;
            while paces[0].next().await {
                rounds += 1;
                (follower.write_plainly)(db, rounds).await;
            }
            rounds
        };
        let own = async {
            let mut written = 0;
            while paces[1].next().await {
                written += 1;
                (follower.write)(&database, written).await;
            }
            written
        };
        let killed = async {
            for lines in 1..=5 {
                let paces = paces.clone();
                let allow = move || {
                    paces[0].add(4);
                    paces[1].add(20);
                };
                let process = [env!("CARGO_BIN_EXE_process"), follower.program];
                kill_after(lines, process, NAME, db, allow).await;
            }
            paces.iter().for_each(Pace::end);
        };
        let (rounds, written, ()) = tokio::join!(plain, own, killed);
        assert!(rounds > 4 && written > 4, "{rounds} {written}");
        assert_eq!(case.until_current().await.repaired, 0, "{}", follower.name);
        (follower.check)(db, "after five killed processes").await;
        assert_eq!(case.records().await.len(), 1, "{}", follower.name);
    })
    .await;
}
