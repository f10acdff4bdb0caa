//! Many instances at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::lease::Lease;
use mongo_patterns::schema::Migrations;
use mongo_patterns::{Error, ErrorKind, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, FailPoint, RecordedCommand, TestDatabase};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Client, Collection};
use tokio::sync::Semaphore;

use support::common::{dropped_commands, end_transactions, until, until_seen};
use support::schema::steps::*;

const INSTANCES: usize = 8;

/// Every instance has read the record before the first step ends. A tool that reads, runs and records would run the step
/// in all of them.
#[tokio::test]
async fn each_step_runs_in_one_of_many_instances() {
    testkit::run(async |db| {
        let reads = || {
            let commands = db.recorder().commands();
            let of_record =
                |sent: &&RecordedCommand| sent.command.get_str("find").is_ok_and(|name| name == "mongo_patterns");
            commands.iter().filter(of_record).count()
        };
        let instance = async || {
            // A client of its own would not be recorded.
            let first = Migrations::new(db.database()).step("a", async |database| {
                trace(&database, "a").await?;
                let door = database.collection::<Document>("door");
                door.insert_one(doc! { "_id": "is reached" }).await?;
                until_found(door, doc! { "_id": "is open" }).await;
                Ok(())
            });
            in_transaction(plain(first, "b"), "c").run().await.unwrap()
        };
        db.recorder().clear();
        let open = async {
            let door = db.plain_collection::<Document>("door");
            until_found(door.clone(), doc! { "_id": "is reached" }).await;
            until("the other instances", async || reads() >= INSTANCES).await;
            door.insert_one(doc! { "_id": "is open" }).await.unwrap();
        };
        let (applied, ()) = tokio::join!(join_all((0..INSTANCES).map(|_| instance())), open);
        assert_eq!(traces(db).await, ["a", "b", "c"]);
        assert_eq!(recorded(db).await, ["a", "b", "c"]);
        let ran: Vec<String> = applied.into_iter().flat_map(|applied| applied.steps).collect();
        assert_eq!(ran, ["a", "b", "c"]);
    })
    .await;
}

/// Instances of two releases start at once: each step runs once, whoever begins.
#[tokio::test]
async fn instances_of_two_releases() {
    testkit::run(async |db| {
        let of = |names: &'static [&'static str]| async move {
            let client = Client::with_uri_str(db.server().uri()).await.unwrap();
            list(&client.database(db.database().name()), names).run().await.unwrap();
        };
        let older = (0..3).map(|_| of(&["a", "b"]));
        let newer = (0..3).map(|_| of(&["a", "b", "c"]));
        tokio::join!(join_all(older), join_all(newer));
        assert_eq!(
            (traces(db).await.join(" "), recorded(db).await.len()),
            ("a b c".into(), 3)
        );
    })
    .await;
}

/// A step that says when it begins, and waits until it may write.
fn blocked_step(db: &TestDatabase, begun: &Arc<Semaphore>, open: &Arc<Semaphore>) -> Migrations {
    let (begun, open) = (Arc::clone(begun), Arc::clone(open));
    Migrations::new(db.database()).step("a", async move |database| {
        begun.add_permits(1);
        let _permit = open.acquire().await;
        trace(&database, "a").await
    })
}

#[tokio::test]
async fn a_bounded_wait_ends_with_an_error() {
    testkit::run(async |db| {
        let (begun, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let of = || blocked_step(db, &begun, &open);
        let others = async {
            let _begun = begun.acquire().await;
            for wait in [Duration::ZERO, Duration::from_millis(50)] {
                let error = of().max_wait(wait).run().await.unwrap_err();
                assert_error(&error, ErrorKind::Contention, None);
                assert!(
                    error.is_transient() && error.to_string().contains("max_wait"),
                    "{error}"
                );
            }
            assert!(of().status().await.unwrap().running_since.is_some());
            open.add_permits(1);
        };
        let (applied, ()) = tokio::join!(of().run(), others);
        assert_eq!(applied.unwrap().steps, ["a"]);
        assert_eq!(traces(db).await, ["a"]);
    })
    .await;
}

/// The lease is renewed while a step runs for longer than its time to live.
#[tokio::test]
async fn a_long_step_keeps_the_lease() {
    testkit::run(async |db| {
        let begun = Arc::new(Semaphore::new(0));
        let (in_step, time_to_live) = (begun.clone(), Duration::from_secs(2));
        let list = |name: &'static str| plain(Migrations::new(db.database()).time_to_live(time_to_live), name);
        let long = Migrations::new(db.database())
            .time_to_live(time_to_live)
            .step("a", async move |database| {
                in_step.add_permits(1);
                // The condition: the lease has been renewed twice, so its first end is over.
                let catalog = database.collection::<Document>("mongo_patterns");
                let lease =
                    doc! { "_id.kind": "lease", "$expr": { "$gt": [{ "$subtract": ["$until", "$since"] }, 2 * 2000] } };
                until_found(catalog, lease).await;
                trace(&database, "a").await
            });
        let other = async {
            let _begun = begun.acquire().await;
            list("a").run().await.unwrap()
        };
        let (long, other) = tokio::join!(long.run(), other);
        assert_eq!((long.unwrap().steps.len(), other.steps.len()), (1, 0));
        assert_eq!(traces(db).await, ["a"]);
    })
    .await;
}

/// Gives the lease to another holder, who has not claimed the record yet.
async fn take_lease(catalog: &Collection<Document>) {
    let taken = vec![doc! { "$set": { "holder": ObjectId::new(), "until": { "$add": ["$$NOW", 600_000] } } }];
    let taken = catalog.update_one(doc! { "_id.kind": "lease" }, taken).await.unwrap();
    assert_eq!(taken.modified_count, 1);
}

/// The holder learns that it has lost the lease while the server executes the commit. The commit decides, and not the lease.
#[tokio::test]
async fn a_commit_in_flight_when_the_lease_is_lost_counts() {
    testkit::run(async |db| {
        let migrations = Migrations::new(db.database()).time_to_live(Duration::from_millis(1500));
        let fault = FailPoint::on(&["commitTransaction"]).times(1);
        let fault = fault.block(Duration::from_secs(2)).enable(db).await;
        let lost = async {
            let sent = |name: &str| db.recorder().names().iter().filter(|sent| *sent == name).count();
            until("the commit", async || sent("commitTransaction") == 1).await;
            take_lease(&db.plain_collection("mongo_patterns")).await;
            let before = sent("update");
            until("the renewal", async || sent("update") > before).await;
        };
        let (applied, ()) = tokio::join!(in_transaction(migrations, "a").run(), lost);
        assert_eq!(applied.unwrap().steps, ["a"]);
        assert_eq!([traces(db).await, recorded(db).await], [["a"], ["a"]]);
        fault.disable().await;
    })
    .await;
}

/// The conflict can be with the instance that has the lease now.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_step_that_conflicts_after_its_lease_was_lost_does_not_run_again() {
    testkit::run(async |db| {
        let (runs, catalog) = (Arc::new(AtomicU32::new(0)), db.plain_collection("mongo_patterns"));
        let ran = runs.clone();
        let migrations = Migrations::new(db.database()).step_in_transaction("a", async move |database, session| {
            ran.fetch_add(1, Ordering::Relaxed);
            take_lease(&catalog).await;
            trace_in(&database, session, "a").await
        });
        let fault = FailPoint::on(&["insert"]).times(1).error_code(112).enable(db).await;
        let error = migrations.run().await.unwrap_err();
        fault.disable().await;
        assert_error(&error, ErrorKind::Contention, Some("a"));
        assert!(error.to_string().contains("time_to_live"), "{error}");
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        assert_eq!((traces(db).await.len(), recorded(db).await.len()), (0, 0));
    })
    .await;
}

/// The steps are applied and recorded: a server that does not answer the release holds up no start.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_release_without_a_reply_is_not_waited_for() {
    testkit::run(async |db| {
        // Those that claim the record, and that record the step and release the lease.
        let updates = || {
            let commands = db.recorder().commands();
            let of_lease =
                |sent: &&RecordedCommand| sent.name == "update" && sent.command.to_string().contains("\"lease\"");
            commands.into_iter().filter(|sent| of_lease(&sent)).collect::<Vec<_>>()
        };
        let fault = FailPoint::on(&["update"]).skip(1);
        let fault = fault.block(Duration::from_secs(6)).enable(db).await;
        list(db.database(), &["a"]).run().await.unwrap();
        assert_eq!(recorded(db).await, ["a"]);
        let released = updates().pop().unwrap();
        assert!(released.reply.is_none() && !released.failed, "{released:?}");
        fault.disable().await;
        dropped_commands(db).await;
    })
    .await;
}

/// While an older release waits, a newer one runs more steps.
#[tokio::test]
async fn who_has_waited_knows_what_others_have_applied() {
    testkit::run(async |db| {
        list(db.database(), &["a"]).run().await.unwrap();
        let other = Lease::new(db.database(), "steps/default").acquire().await.unwrap();
        db.recorder().clear();
        let newer = async {
            let has_read = async || db.recorder().names().contains(&"find".to_owned());
            until("the older release", has_read).await;
            let steps = ["a", "b", "c"].map(|name| doc! { "name": name, "applied": DateTime::now() });
            let catalog = db.plain_collection::<Document>("mongo_patterns");
            let applied = doc! { "$set": { "steps": steps.to_vec() } };
            catalog.update_one(doc! { "_id.kind": "steps" }, applied).await.unwrap();
        };
        let (older, ()) = tokio::join!(list(db.database(), &["a", "b"]).run(), newer);
        let older = older.unwrap();
        assert_eq!((older.steps, older.unknown), (vec![], vec!["c".to_owned()]));
        other.release().await.unwrap();
    })
    .await;
}

/// The last command of a step may still be executed, so no other instance begins before the end of the lease.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn the_lease_stays_after_an_error_with_unknown_outcome_alone() {
    testkit::run(async |db| {
        let holder = async || {
            let lease = db.plain_collection::<Document>("mongo_patterns");
            let lease = lease.find_one(doc! { "_id.kind": "lease" }).await.unwrap().unwrap();
            lease.contains_key("holder")
        };
        let refused =
            Migrations::new(db.database()).step("a", async |_| Err(Error::new(ErrorKind::InvalidArgument, "no")));
        assert!(!refused.run().await.unwrap_err().is_outcome_unknown());
        assert!(!holder().await);
        let fault = FailPoint::on(&["insert"]).times(2).close_connection().enable(db).await;
        let error = list(db.database(), &["a"]).run().await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error:?}");
        assert!(holder().await);
        fault.disable().await;
    })
    .await;
}

#[tokio::test]
async fn those_that_wait_see_a_failure_of_unknown_outcome_at_once() {
    testkit::run(async |db| {
        let (begun, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let of = || blocked_step(db, &begun, &open);
        let fault = FailPoint::on(&["insert"]).times(2).close_connection().enable(db).await;
        let wait = async || {
            drop(begun.acquire().await);
            tokio::time::timeout(Duration::from_secs(15), of().run())
                .await
                .expect("before the lease ends")
        };
        let opens = async {
            drop(begun.acquire().await);
            // The others read the record and the lease.
            db.recorder().sent(6).await;
            open.add_permits(1);
        };
        let (failed, first, second, third, ()) = tokio::join!(of().run(), wait(), wait(), wait(), opens);
        assert!(failed.unwrap_err().is_outcome_unknown());
        fault.disable().await;
        let late = of().run().await;
        for error in [first, second, third, late].map(Result::unwrap_err) {
            assert_error(&error, ErrorKind::Contention, Some("a"));
            assert!(error.is_transient() && !error.is_outcome_unknown(), "{error:?}");
            assert!(error.to_string().contains("another instance failed"), "{error}");
        }
        let end = doc! { "$set": { "until": DateTime::from_millis(0) } };
        let catalog = db.plain_collection::<Document>("mongo_patterns");
        catalog.update_one(doc! { "_id.kind": "lease" }, end).await.unwrap();
        open.add_permits(1);
        assert_eq!(of().run().await.unwrap().steps, ["a"]);
        assert!(!record(db).await.unwrap().contains_key("failed"));
    })
    .await;
}

/// The fence refuses a late commit.
#[tokio::test]
async fn the_next_instance_begins_at_once_after_a_commit_of_unknown_outcome() {
    testkit::run(async |db| {
        let of = || in_transaction(Migrations::new(db.database()), "a");
        until_seen(db, &["trace"]).await;
        let once = of().retry(RetryPolicy::default().with_max_attempts(1));
        let fault = FailPoint::on(&["commitTransaction"]).times(4).close_connection();
        let fault = fault.enable(db).await;
        let error = once.run().await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error:?}");
        fault.disable().await;
        // The commit has not reached the server, which would keep the transaction open for 60 seconds.
        end_transactions(db).await;
        of().max_wait(Duration::ZERO).run().await.unwrap();
        assert_eq!([traces(db).await, recorded(db).await], [["a"], ["a"]]);
    })
    .await;
}

/// A step that blocks its thread, so that the lease is not renewed, and the write of the record is sent after another
/// instance has taken over.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_record_is_refused_by_its_fence() {
    testkit::run(async |db| {
        let (uri, name) = (db.server().uri().to_owned(), db.database().name().to_owned());
        let (begun, is_begun) = mpsc::channel();
        let (over, is_over) = mpsc::channel();
        let late = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let database = Client::with_uri_str(uri).await.unwrap().database(&name);
                let is_over = std::sync::Mutex::new(is_over);
                let late = Migrations::new(&database).time_to_live(Duration::from_secs(3));
                let late = late.step("a", async move |_| {
                    begun.send(()).unwrap();
                    is_over.into_inner().unwrap().recv().unwrap();
                    Ok(())
                });
                let error = late.run().await.unwrap_err();
                mongo_patterns::drain().await; // also the write of the record
                error
            })
        });
        tokio::task::spawn_blocking(move || is_begun.recv().unwrap())
            .await
            .unwrap();
        let applied = list(db.database(), &["a", "b"]).run().await.unwrap();
        assert_eq!(applied.steps, ["a", "b"]);
        let before = record(db).await;
        over.send(()).unwrap();
        let error = tokio::task::spawn_blocking(move || late.join().unwrap()).await.unwrap();
        assert_error(&error, ErrorKind::Contention, Some("a"));
        assert_eq!(record(db).await, before);
    })
    .await;
}
