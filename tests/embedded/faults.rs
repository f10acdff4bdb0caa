//! Conflicts with concurrent writers, and broken connections.

use std::time::Duration;

use mongo_patterns::{ErrorKind, RetryPolicy};
use mongo_patterns_testkit::{self as testkit, FailPoint, Mongod, MongodOptions};
use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};

use crate::embedded::support::*;

/// Another writer removes a child between the write that is refused by the bound and the read of the reason.
#[tokio::test]
async fn an_add_retries_if_a_child_is_removed_before_it_reads_the_reason() {
    testkit::run(async |db| {
        for attempts in [2, 1] {
            stored(db).delete_many(doc! {}).await.unwrap();
            let retry = RetryPolicy::default().with_max_attempts(attempts);
            let patrons = builder(db).max_children(5).retry(retry).build().unwrap();
            plant(db, &patron("joe", (0..5).map(address))).await;
            db.recorder().clear();
            let fault = FailPoint::on(&[]).times(1).block(Duration::from_secs(1)).plan(db, 1);
            let child = address(7);
            let (added, ()) = futures::join!(patrons.add_child("joe", &child).into_future(), async {
                db.recorder().sent(2).await;
                let pull = doc! { "$pull": { "addresses": { "id": 0 } } };
                stored(db).update_one(doc! { "_id": "joe" }, pull).await.unwrap();
            });
            fault.end();
            if attempts == 2 {
                added.unwrap();
                assert_eq!(db.recorder().names(), ["update", "find", "update"]);
                assert_eq!(ids(db, "joe").await, [1, 2, 3, 4, 7].map(Bson::from));
            } else {
                let error = added.unwrap_err();
                assert!(error.is_contention(), "{error}");
                assert_eq!(error.attempts(), Some(1));
                assert_eq!(ids(db, "joe").await.len(), 4);
            }
        }
    })
    .await;
}

/// The driver retries a write, and the server recognizes that it has executed it.
#[tokio::test]
async fn a_broken_connection_duplicates_nothing() {
    testkit::run(async |db| {
        let patrons = patrons(db);
        plant(db, &patron("joe", [address(1), address(2)])).await;
        for times in [1, 2] {
            let fault = FailPoint::on(&["update"])
                .times(times)
                .close_connection()
                .enable(db)
                .await;
            let added = patrons.add_child("joe", &address(3)).await;
            fault.disable().await;
            if times == 1 {
                added.unwrap();
                assert!(patrons.remove_child("joe", 3).await.unwrap().found);
            } else {
                let error = added.unwrap_err();
                assert!(error.is_outcome_unknown(), "{error}");
                patrons.add_child("joe", &address(3)).await.unwrap();
            }
        }
        assert_eq!(ids(db, "joe").await, [1, 2, 3].map(Bson::from));

        // The write is stored, and reported as unconfirmed. The next call returns `AlreadyExists`.
        let fault = FailPoint::on(&["update"]).write_concern_error(64).enable(db).await;
        let error = patrons.add_child("joe", &address(4)).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        fault.disable().await;
        assert_eq!(
            patrons.add_child("joe", &address(4)).await.unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(ids(db, "joe").await, [1, 2, 3, 4].map(Bson::from));
    })
    .await;
}

#[tokio::test]
async fn everything_but_transactions_works_on_a_standalone() {
    let mongod = Mongod::start(MongodOptions::new().standalone()).await.unwrap();
    let database = Client::with_uri_str(mongod.uri()).await.unwrap().database("test");
    let patrons = Patrons::builder(database.collection::<Document>("patron"))
        .children_field("addresses")
        .child_id_field("id")
        .max_children(2)
        .build()
        .unwrap();
    patrons.insert(&patron("joe", [address(1)])).await.unwrap();
    patrons.add_child("joe", &address(2)).await.unwrap();
    assert_eq!(
        patrons.add_child("joe", &address(3)).await.unwrap_err().kind(),
        ErrorKind::LimitReached
    );
    assert!(!patrons.upsert_child("joe", &address(2)).await.unwrap().inserted);
    patrons.reorder_children("joe", [2, 1]).await.unwrap();
    let back = database.collection::<Document>("back");
    assert_eq!(
        patrons
            .migrate_to_references(&back, "patron_id")
            .await
            .unwrap()
            .children,
        2
    );
}
