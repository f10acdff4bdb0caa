//! Calls that are dropped with a stream, and with their runtime.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::poll_immediate;
use futures::{StreamExt, TryStreamExt};
use mongo_patterns::mongodb::Client;
use mongo_patterns::mongodb::options::ClientOptions;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use support::common::pause;
use support::lanes::*;

/// Waits until a command is sent.
async fn until_sent(db: &TestDatabase, command: &str) {
    for commands in 1.. {
        db.recorder().sent(commands).await;
        if db.recorder().names()[commands - 1] == command {
            return;
        }
    }
}

/// Returns how many cursors of the test's client are open and idle.
async fn open_cursors(db: &TestDatabase) -> usize {
    let all = doc! { "$currentOp": { "allUsers": true, "idleCursors": true } };
    let of_test = doc! { "$match": { "type": "idleCursor", "cursor.originatingCommand.$db": db.database().name() } };
    current_operations(db, [all, of_test]).await.len()
}

/// The stream waits for a batch when it is dropped.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_stream_of_findings_is_dropped() {
    testkit::run(async |db| {
        let operation = operation("push");
        let repositories = prepare(db, operation).await;
        let damaged = (10_000..10_500).map(|id| doc! { "_id": id, "customers": [], "has_extras": true });
        let sales = db.plain_collection::<Document>("sales");
        sales.insert_many(damaged).await.unwrap();
        let found: Vec<_> = repositories.books.verify().stream().try_collect().await.unwrap();
        assert_eq!(found.len(), 500);
        let blocked = FailPoint::on(&["getMore"]).block(Duration::from_millis(50));
        let blocked = blocked.enable(db).await;
        let mut used = BTreeSet::new();
        for _ in 0..12 {
            let mut findings = repositories.books.verify().stream();
            db.recorder().clear();
            tokio::select! {
                biased;
                () = until_sent(db, "getMore") => {}
                () = async { while findings.next().await.is_some() {} } => panic!("it reads one batch"),
            }
            drop(findings);
            let call = operation.run(&repositories, FREE[0], FIRST + 1);
            ends("a call after the drop", call).await.unwrap();
            let commands = db.recorder().commands();
            used.extend(commands.iter().filter_map(|sent| sent.connection_id));
        }
        blocked.disable().await;
        assert!(used.len() <= 10, "connections of dropped streams were closed: {used:?}");
        let closed = async {
            while open_cursors(db).await > 0 {
                pause().await;
            }
        };
        ends("the close of the cursors", closed).await;
    })
    .await;
}

/// How a runtime ends.
type End = fn(Runtime);

#[test]
#[ignore = "slow: cargo xtask ci"]
fn a_runtime_ends_with_calls_in_flight() {
    // Two of calls that join, and two of transactions.
    let ended: [(&str, End); 4] = [
        ("append", drop),
        ("push", Runtime::shutdown_background),
        ("update", drop),
        ("insert", Runtime::shutdown_background),
    ];
    for (name, end) in ended {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(testkit::run(async |db| end_runtime(db, operation(name), end).await));
    }
}

/// Ends a runtime while one call is in flight, two wait for it, and one was dropped.
async fn end_runtime(db: &TestDatabase, operation: &'static Operation, end: End) {
    prepare(db, operation).await;
    let holder = Holder::hold(db, operation, HELD).await;
    let (uri, name) = (db.server().uri().to_owned(), db.database().name().to_owned());
    let thread = std::thread::spawn(move || {
        let repositories = async || {
            let mut options = ClientOptions::parse(&uri).await.unwrap();
            options.app_name = Some(ending_app_name(&name));
            let client = Client::with_options(options).unwrap();
            Repositories::new(&client.database(&name))
        };
        let first = Runtime::new().unwrap();
        let calls = first.block_on(async {
            let of_first = repositories().await;
            operation.run(&of_first, FREE[0], FIRST + 1).await.unwrap();
            let call = |number| {
                let of_first = of_first.clone();
                first.spawn(async move { operation.run(&of_first, HELD, number).await })
            };
            let calls = [1, 2, 3].map(|number| call(FIRST + number));
            let dropped = operation.run(&of_first, HELD, FIRST + 4);
            let dropped = tokio::time::timeout(Duration::from_millis(300), dropped).await;
            dropped.unwrap_err();
            calls
        });
        end(first);
        let second = Runtime::new().unwrap();
        second.block_on(async {
            for call in calls {
                match ends("a task", call).await {
                    Ok(called) => drop(called.unwrap_err()),
                    Err(ended) => assert!(ended.is_cancelled(), "a task has panicked"),
                }
            }
            let of_second = repositories().await;
            let call = operation.run(&of_second, FREE[1], FIRST + 1);
            ends("a call in the next runtime", call).await.unwrap();
        });
    });
    tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap();
    holder.release().await;
    // The command in flight can open one. The dropped call and those that waited have none.
    let open = end_transactions_of_ended(db).await;
    assert!(open <= 1, "{}: {open} open transactions", operation.name);
    let plain = Repositories::new(&db.plain_client().database(db.database().name()));
    let call = operation.run(&plain, HELD, FIRST + 50);
    match tokio::time::timeout(STUCK, call).await {
        Ok(called) => called.unwrap(),
        Err(_) => panic!("{} is stuck: {:?}", operation.name, open_transactions(db).await),
    }
    let stored = stored(db, operation, HELD).await;
    assert!(stored.len() <= 2 && stored.contains(&(FIRST + 50)), "{stored:?}");
}

/// The calls of two runtimes join in the task of the one that ends. What the task has not sent is stored by the other.
#[tokio::test]
async fn calls_outlive_the_runtime_of_the_call_that_writes_for_them() {
    for name in ["append", "push", "insert", "update"] {
        testkit::run(async |db| outlive(db, operation(name)).await).await;
    }
}

async fn outlive(db: &TestDatabase, operation: &'static Operation) {
    let repositories = prepare(db, operation).await;
    let holder = Holder::hold(db, operation, HELD).await;
    let call = |number| {
        let repositories = repositories.clone();
        async move { operation.run(&repositories, HELD, FIRST + number).await }
    };
    let first = tokio::spawn(call(1));
    until("the first command", async || in_flight(db, HELD) > 0).await;
    let ending = Runtime::new().unwrap();
    let (joined, has_joined) = oneshot::channel();
    let of_ending = call(2);
    ending.spawn(async move {
        let mut call = Box::pin(of_ending);
        assert!(poll_immediate(call.as_mut()).await.is_none());
        joined.send(()).unwrap();
        call.await
    });
    ends("a call of the runtime that ends", has_joined).await.unwrap();
    let mut last = Box::pin(call(3));
    assert!(poll_immediate(last.as_mut()).await.is_none());
    let ended = tokio::task::spawn_blocking(move || drop(ending));
    ends("the runtime", ended).await.unwrap();
    assert!(
        poll_immediate(last.as_mut()).await.is_none(),
        "{}: the document is held",
        operation.name
    );
    holder.release().await;
    ends("the first call", first).await.unwrap().unwrap();
    ends("the call of the other runtime", last).await.unwrap();
    let stored = stored(db, operation, HELD).await;
    assert_eq!(stored, [FIRST + 1, FIRST + 3], "{}", operation.name);
}
