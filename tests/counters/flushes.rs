//! Flushes with faults, drops, and other processes.

use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::counters::Counters;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};
use mongodb::options::{Acknowledgment, CollectionOptions, WriteConcern};
use tokio::sync::oneshot;

use super::support::*;
use support::common::{dropped_commands, until, until_blocked};
use support::random::random;

/// What fails, and whether the increments of the command took effect.
fn faults() -> [(&'static str, FailPoint); 5] {
    let update = || FailPoint::on(&["update"]).times(1);
    [
        ("applied, unconfirmed", update().write_concern_error(64)),
        ("applied, primary steps down", update().write_concern_error(91)),
        ("not applied, connection", update().close_connection()),
        ("not applied, interrupted", update().error_code(11600)),
        ("not applied, not primary", update().error_code(10107)),
    ]
}

#[tokio::test]
async fn a_flush_is_repeated_until_its_outcome_is_known() {
    testkit::run(async |db| {
        let mut expected = 0;
        for (name, fault) in faults() {
            let views = views(db);
            let guard = fault.enable(db).await;
            for round in 0..2 {
                views.add(1, 3).unwrap();
                expected += 3;
                db.recorder().clear();
                views.flush().await.unwrap();
                let commands = if round == 0 { 2 } else { 1 };
                assert_eq!(db.recorder().names().len(), commands, "{name}");
                assert_eq!(count(db, 1).await, expected, "{name}");
            }
            guard.disable().await;
        }
    })
    .await;
}

/// What a flush has left is sent by the next one, with its number, and what was added since in another batch.
#[tokio::test]
async fn a_failed_flush_leaves_its_counts_in_memory() {
    testkit::run(async |db| {
        let mut expected = 0;
        for (name, fault) in faults() {
            let views = impatient(db);
            let guard = fault.enable(db).await;
            views.add(1, 3).unwrap();
            let error = views.flush().await.unwrap_err();
            assert!(error.is_outcome_unknown(), "{name}: {error:?}");
            assert_eq!(error.stored_count(), Some(0), "{name}");
            views.add(1, 4).unwrap();
            db.recorder().clear();
            views.flush().await.unwrap();
            assert_eq!(db.recorder().names(), ["update", "update"], "{name}");
            expected += 7;
            assert_eq!(count(db, 1).await, expected, "{name}");
            guard.disable().await;
        }
    })
    .await;
}

/// One of three commands has an unknown outcome. The counts of the others were never sent, or were added.
#[tokio::test]
async fn counts_that_were_never_sent_stay_after_an_unknown_outcome() {
    testkit::run(async |db| {
        let damaged = (0..3000).map(|id| doc! { "_id": id, "views": "many" });
        articles(db).insert_many(damaged).await.unwrap();
        let views = impatient(db);
        for id in 0..3000 {
            views.add(id, 1).unwrap();
        }
        let fault = FailPoint::on(&["update"]).times(1).close_connection().enable(db).await;
        assert!(views.flush().await.unwrap_err().is_outcome_unknown());
        fault.disable().await;
        // All are refused. Those of the first command may be added, and are dropped.
        views.flush().await.unwrap_err();
        articles(db)
            .update_many(doc! {}, doc! { "$unset": { "views": "" } })
            .await
            .unwrap();
        assert_eq!(views.flush().await.unwrap().documents, 2000);
        let counted = articles(db).count_documents(doc! { "views": 1 }).await.unwrap();
        assert_eq!(counted, 2000);
    })
    .await;
}

#[tokio::test]
async fn a_dropped_flush_adds_each_count_once() {
    testkit::run(async |db| {
        let views = views(db);
        articles(db).insert_one(doc! { "_id": 1 }).await.unwrap();
        let mut expected = 0;
        for _ in 0..3 {
            let mut holder = db.plain_client().start_session().await.unwrap();
            holder.start_transaction().await.unwrap();
            let hold = doc! { "$set": { "held": true } };
            let articles = articles(db);
            let hold = articles.update_one(doc! { "_id": 1 }, hold);
            hold.session(&mut holder).await.unwrap();
            views.add(1, 3).unwrap();
            tokio::select! {
                flushed = views.flush() => panic!("{flushed:?}"),
                () = until_blocked(db, doc! { "op": "update" }) => {}
            }
            views.add(1, 4).unwrap();
            // Further ones wait for the reply of its command, so the server has one of them, and the pool all other connections.
            db.recorder().clear();
            for _ in 0..2 {
                let waited = tokio::time::timeout(Duration::from_millis(20), views.flush()).await;
                assert!(waited.is_err(), "{waited:?}");
            }
            assert_eq!(db.recorder().names(), [""; 0]);
            holder.abort_transaction().await.unwrap();
            views.flush().await.unwrap();
            expected += 7;
            dropped_commands(db).await;
            assert_eq!(count(db, 1).await, expected);
        }
        for round in 0..60 {
            views.add(1, 1).unwrap();
            let drop_after = Duration::from_micros(round * 40);
            drop(tokio::time::timeout(drop_after, views.flush()).await);
        }
        views.flush().await.unwrap();
        dropped_commands(db).await;
        assert_eq!(count(db, 1).await, expected + 60);
    })
    .await;
}

async fn ended(db: &TestDatabase, count_of_two: i64) -> bool {
    stored(db, 2).await.is_some() && count(db, 2).await == count_of_two
}

#[tokio::test]
async fn a_run_flushes_by_interval_by_size_and_at_its_end() {
    testkit::run(async |db| {
        let run = |views: Counters| {
            let (end, ends) = oneshot::channel::<()>();
            let run = async move { views.run().until(async move { ends.await.unwrap() }).await };
            (end, tokio::spawn(run))
        };
        let views = builder(db).interval(Duration::from_millis(20)).build().unwrap();
        let (end, running) = run(views.clone());
        for round in 1..=3 {
            views.add(2, 1).unwrap();
            until("the interval ends", async || ended(db, round).await).await;
        }
        end.send(()).unwrap();
        running.await.unwrap().unwrap();

        let views = slow(db);
        let (end, running) = run(views.clone());
        for id in 1000..2000 {
            views.add(id, 1).unwrap();
        }
        let is_flushed = async || stored(db, 1999).await.is_some();
        until("the counts of a whole command wait", is_flushed).await;
        views.add(2, 5).unwrap();
        assert_eq!(count(db, 2).await, 3);
        end.send(()).unwrap();
        running.await.unwrap().unwrap();
        assert_eq!(count(db, 2).await, 8);
    })
    .await;
}

/// A run ends with the error of a flush, and the next one continues.
#[tokio::test]
async fn a_run_that_failed_is_continued() {
    testkit::run(async |db| {
        let views = builder(db)
            .interval(Duration::from_millis(10))
            .retry(mongo_patterns::RetryPolicy::default().with_max_attempts(2));
        let views = views.build().unwrap();
        views.add(1, 3).unwrap();
        let fault = FailPoint::on(&["update"]).times(2).error_code(11600).enable(db).await;
        let error = views.run().await.unwrap_err();
        assert_eq!(error.attempts(), Some(2), "{error:?}");
        fault.disable().await;
        views.add(1, 4).unwrap();
        views.run().until(std::future::ready(())).await.unwrap();
        assert_eq!(count(db, 1).await, 7);
    })
    .await;
}

#[tokio::test]
async fn a_count_beyond_the_bound_is_refused() {
    testkit::run(async |db| {
        let views = views(db);
        for id in 0..100_000 {
            views.add(id, 1).unwrap();
        }
        let error = views.add("one more", 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitReached);
        views.add(7, 1).unwrap();
        assert_eq!(db.recorder().names().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_command_has_1000_documents() {
    testkit::run(async |db| {
        let views = views(db);
        for id in 0..1001 {
            views.add(id, 1).unwrap();
        }
        let flushed = views.flush().await.unwrap();
        assert_eq!((flushed.documents, db.recorder().names().len()), (1001, 2));
        let counted = articles(db).count_documents(doc! { "views": 1 }).await.unwrap();
        assert_eq!(counted, 1001);
    })
    .await;
}

#[tokio::test]
async fn a_flush_has_the_write_concern_of_the_collection() {
    testkit::run(async |db| {
        let concern = WriteConcern::builder().w(Acknowledgment::Majority);
        let concern = concern.w_timeout(Duration::from_secs(20)).build();
        let options = CollectionOptions::builder().write_concern(concern).build();
        let collection = db.database().collection_with_options::<Document>("articles", options);
        let views = Counters::builder(collection).field("views").build().unwrap();
        views.add(1, 1).unwrap();
        views.flush().await.unwrap();
        let command = db.recorder().last().unwrap().command;
        let sent = command.get_document("writeConcern").unwrap();
        assert_eq!(sent, &doc! { "w": "majority", "wtimeout": 20_000 });
    })
    .await;
}

/// Processes count the same articles, some of which are new. One in four is killed: it never flushes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_lose_what_they_had_not_flushed() {
    testkit::run(async |db| {
        let processes = (0..4).map(|process: i64| {
            let views = impatient(db);
            tokio::spawn(async move {
                let (mut flushed, mut random) = ([0_i64; 20], random(process));
                for round in 0..16 {
                    let mut added = [0_i64; 20];
                    for _ in 0..20 {
                        let article = random.usize(0..20);
                        added[article] += 1;
                        views.add(i64::try_from(article).unwrap(), 1).unwrap();
                    }
                    if process % 4 == 0 && round == 8 {
                        return flushed;
                    }
                    views.flush().await.unwrap();
                    for (flushed, added) in flushed.iter_mut().zip(added) {
                        *flushed += added;
                    }
                }
                flushed
            })
        });
        let mut expected = [0_i64; 20];
        for flushed in join_all(processes.collect::<Vec<_>>()).await {
            for (expected, flushed) in expected.iter_mut().zip(flushed.unwrap()) {
                *expected += flushed;
            }
        }
        for (article, expected) in expected.into_iter().enumerate() {
            assert_eq!(count(db, i64::try_from(article).unwrap()).await, expected);
        }
    })
    .await;
}
