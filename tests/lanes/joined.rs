//! Concurrent calls for one document: the first is sent alone, and those that wait for it are sent together.
//!
//! The futures of a test are polled in their order, where it does not spawn them.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{join_all, poll_immediate};
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};

use crate::common::support::end_transactions;
use crate::lanes::support::*;

/// A call of each pattern whose calls join.
const JOINING: [&str; 4] = ["append", "push", "insert", "update"];
const DOCUMENT: i32 = FREE[0];

async fn for_each(names: &[&str], test: impl AsyncFn(&TestDatabase, &'static Operation, Repositories)) {
    for name in names {
        testkit::run(async |db| {
            let operation = operation(name);
            let repositories = prepare(db, operation).await;
            test(db, operation, repositories).await;
            mongo_patterns::drain().await;
        })
        .await;
    }
}

/// Returns the round trips since the last call.
fn round_trips(db: &TestDatabase) -> usize {
    let round_trips = db.recorder().round_trips();
    db.recorder().clear();
    round_trips
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_round_trips() {
    const TASKS: i32 = 16;
    const CALLS: i32 = 10;
    for_each(&JOINING, async |db, operation, repositories| {
        operation.run(&repositories, DOCUMENT, FIRST + 1).await.unwrap();
        let alone = round_trips(db);
        let tasks = (1..=TASKS).map(|task| {
            let repositories = repositories.clone();
            tokio::spawn(async move {
                for n in 0..CALLS {
                    let number = FIRST + task * 100 + n;
                    operation.run(&repositories, DOCUMENT, number).await.unwrap();
                }
            })
        });
        for task in join_all(tasks).await {
            task.unwrap();
        }
        let calls = usize::try_from(TASKS * CALLS).unwrap();
        let all = round_trips(db);
        assert!(
            all < calls * alone * 2 / 3,
            "{}: {all} for {calls} calls",
            operation.name
        );
        let stored = stored_in_order(db, operation, DOCUMENT).await;
        assert_eq!(stored.len(), 2 + calls, "{}", operation.name);
        for task in 1..=TASKS {
            let first = FIRST + task * 100;
            let of_task = stored.iter().copied().filter(|n| (first..first + 100).contains(n));
            let expected: Vec<i32> = (first..first + CALLS).collect();
            assert_eq!(of_task.collect::<Vec<_>>(), expected, "in the order of the task");
        }
    })
    .await;
}

#[tokio::test]
async fn calls_for_several_documents_do_not_share_commands() {
    for_each(&JOINING, async |db, operation, repositories| {
        operation.run(&repositories, HELD, FIRST).await.unwrap();
        round_trips(db);
        let documents = [FREE[0], FREE[1], HELD];
        let calls = (0..30).map(|n| operation.run(&repositories, documents[n as usize % 3], FIRST + 1 + n));
        for called in join_all(calls).await {
            called.unwrap();
        }
        for (first, document) in (1..).zip(documents) {
            let expected: Vec<i32> = (0..10).map(|n| FIRST + first + 3 * n).collect();
            assert_eq!(
                stored(db, operation, document).await[1..],
                expected,
                "{}",
                operation.name
            );
        }
    })
    .await;
}

/// The second of three calls is dropped while it waits for the first.
#[tokio::test]
async fn a_call_that_is_dropped_while_it_waits_has_no_effect() {
    for_each(&JOINING, async |db, operation, repositories| {
        let call = |n: i32| Box::pin(operation.run(&repositories, DOCUMENT, FIRST + n));
        let [mut first, second, mut third] = [call(1), call(2), call(3)];
        assert!(poll_immediate(first.as_mut()).await.is_none());
        assert!(second.now_or_never().is_none());
        assert!(poll_immediate(third.as_mut()).await.is_none());
        first.await.unwrap();
        third.await.unwrap();
        let stored = stored(db, operation, DOCUMENT).await;
        assert_eq!(stored, [FIRST, FIRST + 1, FIRST + 3], "{}", operation.name);
    })
    .await;
}

/// Also when the call that the others wait for is dropped, with its command on the way.
#[tokio::test]
async fn calls_have_their_turn_after_the_command_of_a_dropped_one() {
    for_each(&JOINING, async |db, operation, repositories| {
        let call = |n: i32| operation.run(&repositories, DOCUMENT, FIRST + n);
        assert!(call(1).now_or_never().is_none());
        for called in join_all([call(2), call(3)]).await {
            called.unwrap();
        }
        // A transaction is aborted.
        let first = match operation.name {
            "append" | "push" => Some(FIRST + 1),
            _ => None,
        };
        let expected: Vec<i32> = [FIRST].into_iter().chain(first).chain([FIRST + 2, FIRST + 3]).collect();
        assert_eq!(stored(db, operation, DOCUMENT).await, expected, "{}", operation.name);
    })
    .await;
}

/// The task that writes for a document ends with its runtime. The next call must not wait for it.
#[tokio::test]
async fn the_queue_of_a_document_survives_the_end_of_a_runtime() {
    for_each(&["append", "push"], async |db, operation, repositories| {
        let call = |n: i32| Box::pin(operation.run(&repositories, DOCUMENT, FIRST + n));
        let mut first = call(1);
        assert!(poll_immediate(first.as_mut()).await.is_none());
        let mut waiting = call(2);
        std::thread::scope(|scope| {
            let other = || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(async { assert!(poll_immediate(waiting.as_mut()).await.is_none()) });
            };
            scope.spawn(other).join().unwrap();
        });
        let error = waiting.await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error:?}");
        first.await.unwrap();
        call(3).await.unwrap();
        let stored = stored(db, operation, DOCUMENT).await;
        assert_eq!(stored, [FIRST, FIRST + 1, FIRST + 3], "{}", operation.name);
    })
    .await;
}

#[tokio::test]
async fn a_commit_without_a_reply_is_of_unknown_outcome_for_every_call() {
    /// The server's code for a time limit. The driver does not retry it.
    const EXCEEDED: i32 = 50;
    for_each(&["insert", "update"], async |db, operation, repositories| {
        let fault = FailPoint::on(&["commitTransaction"]).skip(1).error_code(EXCEEDED);
        let fault = fault.enable(db).await;
        let calls = (1..5).map(|n| operation.run(&repositories, DOCUMENT, FIRST + n));
        let mut called = join_all(calls).await.into_iter();
        fault.disable().await;
        end_transactions(db).await;
        called.next().unwrap().unwrap();
        for called in called {
            let error = called.unwrap_err();
            assert!(error.is_outcome_unknown(), "{error:?}");
        }
        let stored = stored(db, operation, DOCUMENT).await.len();
        assert!([2, 5].contains(&stored), "all of them, or none: {stored}");
    })
    .await;
}

/// Callers with timeouts. A call that is dropped is stored or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_callers_do_not_affect_others() {
    const ROUNDS: i32 = 10;
    const TASKS: i32 = 8;
    for_each(&JOINING, async |db, operation, repositories| {
        let mut acknowledged = Vec::new();
        for round in 0..ROUNDS {
            let tasks = (1..=TASKS).map(|task| {
                let (repositories, number) = (repositories.clone(), FIRST + round * 100 + task);
                tokio::spawn(async move {
                    let call = operation.run(&repositories, DOCUMENT, number);
                    if task % 2 == 0 {
                        call.await.unwrap();
                        return Some(number);
                    }
                    let time = Duration::from_micros(u64::try_from(task - 1).unwrap() * 400);
                    let called = tokio::time::timeout(time, call).await.ok()?;
                    called.unwrap();
                    Some(number)
                })
            });
            for task in join_all(tasks).await {
                acknowledged.extend(task.unwrap());
            }
        }
        let all = usize::try_from(ROUNDS * TASKS).unwrap();
        assert!(
            (all / 2..all).contains(&acknowledged.len()),
            "some callers were dropped"
        );
        mongo_patterns::drain().await;
        end_transactions(db).await;
        let stored = stored(db, operation, DOCUMENT).await;
        assert!(stored.is_sorted_by(|a, b| a < b), "{}: stored twice", operation.name);
        let is_stored = |number: &i32| stored.binary_search(number).is_ok();
        assert!(acknowledged.iter().all(is_stored), "{}: lost", operation.name);
    })
    .await;
}
