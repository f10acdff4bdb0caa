//! The lease itself.

use std::time::Duration;

use futures::future::join_all;
use mongo_patterns::ErrorKind;
use mongo_patterns::lease::Lease;
use mongo_patterns_testkit::{self as testkit, FailPoint, TestDatabase};
use mongodb::bson::{Document, doc};

fn lease(db: &TestDatabase) -> Lease {
    Lease::new(db.database(), "report")
}

fn catalog(db: &TestDatabase) -> mongodb::Collection<Document> {
    db.plain_collection("mongo_patterns")
}

/// Sets the end of the lease to a time in the past: what the clock does to a holder that is paused.
async fn end(db: &TestDatabase) {
    let ended = vec![doc! { "$set": { "until": { "$subtract": ["$$NOW", 1] } } }];
    let lease = doc! { "_id.kind": "lease" };
    catalog(db).update_one(lease, ended).await.unwrap();
}

#[tokio::test]
async fn one_of_many_acquires_it_and_the_next_one_after_its_release() {
    testkit::run(async |db| {
        let mut last = 0;
        for _ in 0..5 {
            let attempts = join_all((0..16).map(|_| async { lease(db).try_acquire().await.unwrap() })).await;
            let mut held: Vec<_> = attempts.into_iter().flatten().collect();
            assert_eq!(held.len(), 1);
            let held = held.remove(0);
            assert!(held.fence() > last, "{} after {last}", held.fence());
            last = held.fence();
            held.renew().await.unwrap();
            assert!(held.release().await.unwrap());
        }
        // One that waits acquires it after the release.
        let held = lease(db).acquire().await.unwrap();
        let first = held.fence();
        let lease = lease(db);
        let (next, ()) = tokio::join!(lease.acquire(), async {
            assert!(held.release().await.unwrap());
        });
        assert!(next.unwrap().fence() > first);
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_has_ended_goes_to_the_next_and_its_holder_finds_out() {
    testkit::run(async |db| {
        let held = lease(db).acquire().await.unwrap();
        end(db).await;
        held.renew().await.unwrap(); // no other holder has acquired it since
        assert!(lease(db).try_acquire().await.unwrap().is_none());
        end(db).await;
        let next = lease(db).try_acquire().await.unwrap().unwrap();
        assert!(next.fence() > held.fence());
        let error = held.renew().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.operation()),
            (ErrorKind::Contention, Some("renew"))
        );
        assert!(!held.release().await.unwrap());
        next.renew().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn work_ends_when_the_lease_is_lost_or_cannot_be_renewed() {
    testkit::run(async |db| {
        let lease = lease(db).time_to_live(Duration::from_millis(300));
        let held = lease.acquire().await.unwrap();
        end(db).await;
        let next = lease.try_acquire().await.unwrap().unwrap();
        let error = held.keep(std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contention);
        assert_eq!(next.keep(async { 5 }).await.unwrap(), 5);
        // The server does not answer: the holder finds out by its own clock.
        next.renew().await.unwrap();
        let fault = FailPoint::on(&["update"]).close_connection().enable(db).await;
        let error = next.keep(std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contention);
        fault.disable().await;
    })
    .await;
}

/// A fence is greater than all before, whatever happens to the document.
#[tokio::test]
async fn the_fence_grows_after_the_document_was_deleted() {
    testkit::run(async |db| {
        let held = lease(db).acquire().await.unwrap();
        let ahead = held.fence() + 1_000_000_000;
        catalog(db).delete_many(doc! {}).await.unwrap();
        let next = lease(db).acquire().await.unwrap();
        assert!(next.fence() > held.fence());
        assert!(held.renew().await.is_err());
        assert!(next.release().await.unwrap());
        // The clock was set back.
        let set = doc! { "$set": { "fence": ahead } };
        catalog(db).update_one(doc! {}, set).await.unwrap();
        assert_eq!(lease(db).acquire().await.unwrap().fence(), ahead + 1);
    })
    .await;
}

#[tokio::test]
async fn a_name_is_a_value() {
    testkit::run(async |db| {
        for name in ["$$NOW", "$a", "a.b", "", "\0", &"x".repeat(10_000)] {
            let lease = Lease::new(db.database(), name);
            let held = lease.try_acquire().await.unwrap().unwrap();
            assert!(lease.try_acquire().await.unwrap().is_none());
            assert!(held.release().await.unwrap());
        }
        let lease = lease(db).time_to_live(Duration::from_secs(5));
        let held = lease.acquire().await.unwrap();
        let debug = format!("{lease:?} {held:?}");
        let expected = "Lease { time_to_live: 5s, .. } HeldLease { fence: ";
        assert!(debug.starts_with(expected), "{debug}");
    })
    .await;
}

#[tokio::test]
async fn a_dropped_acquisition_ends_after_the_time_to_live() {
    testkit::run(async |db| {
        let lease = lease(db).time_to_live(Duration::from_millis(300));
        let blocked = FailPoint::on(&["findAndModify"]).times(1);
        let blocked = blocked.block(Duration::from_millis(100)).enable(db).await;
        db.recorder().clear();
        tokio::select! {
            biased;
            () = db.recorder().sent(1) => {}
            acquired = lease.acquire() => panic!("{acquired:?}"),
        }
        blocked.disable().await;
        mongo_patterns::drain().await;
        let until = catalog(db).find_one(doc! {}).await.unwrap().unwrap();
        assert!(until.contains_key("holder"), "the command ran to its reply: {until}");
        lease.acquire().await.unwrap();
    })
    .await;
}
