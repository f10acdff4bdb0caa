//! A follower that is interrupted, fails, or loses the server: the next one resumes, and misses nothing.

use std::time::Duration;

use mongo_patterns::ErrorKind;
use mongo_patterns::subset::Followed;
use mongo_patterns_testkit::{self as testkit, FailPoint, ReplicaSet, TestDatabase};
use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, WriteConcern};
use tokio::sync::watch;

use crate::common::followers::kill_after;
use crate::common::pace::Pace;
use crate::subset::follower_support::*;
use crate::subset::support::*;

const COMMANDS: [&str; 8] = [
    "hello",
    "listIndexes",
    "listCollections",
    "collMod",
    "find",
    "aggregate",
    "getMore",
    "update",
];

/// Returns a repository with its own lanes that has checked nothing yet, as in a new process.
fn restarted(db: &TestDatabase) -> Products {
    builder(db.database()).build().unwrap()
}

/// Follows until this number of commands was sent, and is then dropped. Returns whether it had ended before.
async fn drop_after(db: &TestDatabase, commands: u32) -> bool {
    let products = restarted(db);
    db.recorder().clear();
    let slow = FailPoint::on(&COMMANDS).skip(commands).block(Duration::from_millis(20));
    let fault = slow.enable(db).await;
    let sent = db.recorder().sent(commands as usize + 1);
    let follow = products.follow(NAME).enable_pre_images().run_until_current();
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

/// Drops it at each of its commands, with a backlog of some changes each time, at first before it has begun.
#[tokio::test]
async fn a_follower_dropped_at_any_command_is_resumed() {
    testkit::run(async |db| {
        let products = followed(db, 3).await;
        for first in [true, false] {
            let mut damaged = 0;
            for commands in 0.. {
                if first {
                    catalog(db).drop().await.unwrap();
                }
                write_plainly(&reviews(db), 3, commands as i32 * 2 + i32::from(first), 10).await;
                let ended = drop_after(db, commands).await;
                damaged += usize::from(count_wrong(db).await > 0);
                let end = restarted(db).follow(NAME).enable_pre_images().run_until_current().await;
                let context = format!("dropped after {commands}, {first}: {end:?}");
                assert_right(db, &products, &context).await;
                if ended {
                    break;
                }
                assert!(commands < 60, "{context}");
            }
            assert!(damaged >= 5, "{damaged}");
        }
    })
    .await;
}

/// A permanent error ends it, and it can be called again.
#[tokio::test]
async fn a_follower_that_fails_at_any_command_can_be_called_again() {
    testkit::run(async |db| {
        let products = behind(db, 3, 0).await;
        let mut failed = 0;
        for commands in 0.. {
            write_plainly(&reviews(db), 3, commands as i32 + 1, 10).await;
            let fault = FailPoint::on(&COMMANDS).skip(commands).error_code(96).enable(db).await;
            let outcome = restarted(db).follow(NAME).run_until_current().await;
            fault.disable().await;
            if let Err(error) = &outcome {
                failed += 1;
                assert_eq!((error.kind(), error.operation()), (ErrorKind::Driver, Some("follow")));
            }
            restarted(db).follow(NAME).run_until_current().await.unwrap();
            assert_right(db, &products, &format!("failed after {commands}: {outcome:?}")).await;
            if outcome.is_ok() {
                break;
            }
        }
        assert!(failed >= 12, "{failed}");
    })
    .await;
}

/// Broken connections and time limits, more often than the driver retries.
#[tokio::test]
async fn a_transient_error_does_not_end_it() {
    testkit::run(async |db| {
        let products = behind(db, 5, 0).await;
        let mut writer = 0;
        for commands in [["getMore"], ["aggregate"], ["update"], ["find"], ["listCollections"]] {
            for passing in [
                FailPoint::on(&commands).times(5).close_connection(),
                FailPoint::on(&commands).times(3).error_code(262),
            ] {
                writer += 1;
                write_plainly(&reviews(db), 5, writer, 30).await;
                let fault = passing.enable(db).await;
                let followed = restarted(db).follow(NAME).run_until_current().await.unwrap();
                fault.disable().await;
                assert_eq!((followed.changes, followed.repaired), (30, 0), "{commands:?}");
                assert_right(db, &products, commands[0]).await;
            }
        }
        // With a retry time, its error has the number of attempts.
        let fault = FailPoint::on(&["aggregate"]).error_code(262).enable(db).await;
        let follow = products.follow(NAME).max_retry_time(Duration::from_millis(350));
        let error = follow.await.unwrap_err();
        fault.disable().await;
        assert!(error.attempts() >= Some(2), "{error:?}");
        assert!(error.as_driver_error().is_some());
    })
    .await;
}

/// A node reports this while it restarts. And it kills a query (175) while it rolls back its own writes.
#[tokio::test]
async fn a_node_that_is_temporarily_neither_primary_nor_secondary_does_not_end_it() {
    testkit::run(async |db| {
        let products = behind(db, 5, 30).await;
        for (commands, code) in [["aggregate"], ["getMore"], ["find"]]
            .into_iter()
            .flat_map(|commands| [(commands, 13436), (commands, 175)])
        {
            let fault = FailPoint::on(&commands).times(3).error_code(code).enable(db).await;
            restarted(db).follow(NAME).run_until_current().await.unwrap();
            fault.disable().await;
        }
        assert_right(db, &products, "").await;
    })
    .await;
}

/// It can be stopped while it waits for the server.
#[tokio::test]
async fn a_follower_without_a_server_can_be_stopped() {
    testkit::run(async |db| {
        let products = behind(db, 1, 5).await;
        let fault = FailPoint::on(&["aggregate"]).error_code(262).enable(db).await;
        let stop = async {
            // The third attempt to open the stream.
            let aggregates = || db.recorder().names().iter().filter(|name| *name == "aggregate").count();
            while aggregates() < 3 {
                let sent = db.recorder().round_trips();
                db.recorder().sent(sent + 1).await;
            }
        };
        let followed = products.follow(NAME).until(stop).await.unwrap();
        fault.disable().await;
        assert_eq!(followed.changes, 0);
        assert_eq!(products.follow(NAME).run_until_current().await.unwrap().changes, 5);
    })
    .await;
}

/// Processes that are killed at any moment during concurrent writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_are_resumed() {
    testkit::run(async |db| {
        let products = behind(db, 20, 0).await;
        let pace = Pace::of(4);
        let writers = (0..4).map(|writer| {
            let (reviews, pace) = (reviews(db), pace.clone());
            tokio::spawn(async move {
                for round in 1.. {
                    if !pace.next().await {
                        return round;
                    }
                    write_plainly(&reviews, 20, round * 4 + writer, 50).await;
                }
                0
            })
        });
        let writers: Vec<_> = writers.collect();
        for lines in 1..=6 {
            let pace = pace.clone();
            let allow = move || pace.add(4);
            kill_after(lines, env!("CARGO_BIN_EXE_follow-reviews"), NAME, db, allow).await;
        }
        pace.end();
        for writer in writers {
            assert!(writer.await.unwrap() > 1);
        }
        let followed = products.follow(NAME).run_until_current().await.unwrap();
        assert_eq!(followed.repaired, 0);
        assert_right(db, &products, "").await;
    })
    .await;
}

/// The primary of three nodes is killed while a program writes and a follower follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_survives_the_death_of_the_primary() {
    let mut set = ReplicaSet::start(3).await.unwrap();
    let mut options = ClientOptions::parse(set.uri()).await.unwrap();
    options.write_concern = Some(WriteConcern::majority());
    let database = Client::with_options(options).unwrap().database("test");
    let products: Products = builder(&database).build().unwrap();
    products.ensure_indexes().await.unwrap();
    let (parents, children) = (
        database.collection("product"),
        database.collection::<Document>("review"),
    );
    parents
        .insert_many((1..=10).map(|id| doc! { "_id": id, "name": "Super Widget" }))
        .await
        .unwrap();
    let (up_to, mut reached) = watch::channel(Followed::default());
    let follower = tokio::spawn({
        let products = products.clone();
        async move {
            let report = |at| {
                up_to.send_replace(at);
            };
            products.follow(NAME).enable_pre_images().on_progress(report).await
        }
    });
    if reached.changed().await.is_err() {
        // Older than MongoDB 6.0.
        assert_eq!(follower.await.unwrap().unwrap_err().kind(), ErrorKind::Unsupported);
        return;
    }
    let (next, mut written) = watch::channel(0);
    let writer = tokio::spawn(async move {
        for id in 0..300 {
            let new = mongodb::bson::serialize_to_document(&review_of(id % 10 + 1, id, id.into())).unwrap();
            // A review that is stored although its insert failed is found by its id.
            while let Err(error) = children.insert_one(new.clone()).await {
                if mongo_patterns_core::error::duplicate_key(&error).is_some() {
                    break;
                }
            }
            if id % 3 == 0 {
                let one = doc! { "product_id": id % 10 + 1, "review_id": id };
                while children.delete_many(one.clone()).await.is_err() {}
            }
            next.send_replace(id + 1);
        }
    });
    written.wait_for(|written| *written >= 100).await.unwrap();
    set.kill_primary().await.unwrap();
    writer.await.unwrap();
    let reply = database.run_command(doc! { "ping": 1 }).await.unwrap();
    let last = reply.get_timestamp("operationTime").unwrap();
    let there = reached.wait_for(|at| at.up_to.is_some_and(|up_to| up_to >= last));
    let there = tokio::time::timeout(Duration::from_secs(120), there).await;
    let followed = *there.expect("the follower makes no progress").unwrap();
    assert!(followed.changes >= 400 && followed.repaired == 1, "{followed:?}");
    follower.abort();
    assert_eq!(wrong(&parents, &database.collection("review"), 10).await, []);
}
