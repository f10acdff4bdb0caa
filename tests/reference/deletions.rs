//! The rules of a deletion, and deletions that meet inserts.

use std::time::Duration;

use mongo_patterns::reference::OnReferences;
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, FailPoint, FailPointGuard, TestDatabase};
use mongodb::bson::doc;
use mongodb::bson::oid::ObjectId;

use support::common::all;
use support::reference::*;

const MARK: &str = "mongo_patterns_deleting";

/// Lets the server hold the next command with this name.
async fn block(db: &TestDatabase, command: &str) -> FailPointGuard {
    let block = FailPoint::on(&[command]).times(1).block(Duration::from_secs(2));
    block.enable(db).await
}

#[tokio::test]
async fn a_deletion_is_refused_or_keeps_or_clears_the_copies() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        for (id, customer) in [(1, 1), (2, 1), (3, 2)] {
            orders.insert(&order(id, customer)).await.unwrap();
        }
        let before = contents(db).await;
        let refused = orders.delete_source(1).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Referenced, "{refused}");
        assert!(refused.to_string().contains("on_references"), "{refused}");
        assert!(!refused.is_transient() && !refused.is_outcome_unknown() && !refused.is_invalid_input());
        assert_eq!(contents(db).await, before, "the mark is removed");
        assert_eq!(delete(&orders, 1, OnReferences::KeepCopy).await, (true, 2));
        let expected = doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": 0_i64, "deleted": true };
        for id in 1..=2 {
            assert_eq!(copy_in(db, id).await, expected);
        }
        let read = orders.get(1).max_staleness(0).await.unwrap().unwrap();
        assert_eq!(
            read.get_document("customer").unwrap(),
            &expected,
            "its source does not exist"
        );
        assert!(!copy_in(db, 3).await.contains_key("deleted"));
        assert_eq!(findings(&orders).await, []);
        // A repeated call finds nothing to do.
        assert_eq!(delete(&orders, 1, OnReferences::KeepCopy).await, (false, 0));

        assert_eq!(delete(&orders, 2, OnReferences::Clear).await, (true, 1));
        let order = stored(db).find_one(doc! { "_id": 3 }).await.unwrap().unwrap();
        assert_eq!(order, doc! { "_id": 3, "total": 5 });
        assert_eq!(findings(&orders).await, []);
    })
    .await;
}

/// The mark of a deletion that died has no effect.
#[tokio::test]
async fn a_marked_customer_can_be_used_and_deleted() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        let mark = doc! { "$set": { MARK: ObjectId::new() } };
        let is_marked = async |id: i32| {
            let found = customers(db).find_one(doc! { "_id": id }).await.unwrap().unwrap();
            found.contains_key(MARK)
        };
        customers(db).update_many(doc! {}, mark.clone()).await.unwrap();
        assert_eq!(findings(&orders).await, []);
        db.recorder().clear();
        assert_eq!(orders.update_source(1, rename("Bea")).await.unwrap().version, 1);
        assert!(is_marked(1).await, "an update does not touch it");
        orders.insert(&order(7, 1)).await.unwrap();
        assert_eq!(names(db), "findAndModify update find insert find update");
        assert!(!is_marked(1).await, "an insert removes it");
        assert!(!copy_in(db, 7).await.contains_key(MARK));
        orders.set_reference(7, 2).await.unwrap();
        assert!(!is_marked(2).await);
        assert_eq!(assert_current(db, &orders).await, 1);
        customers(db).update_many(doc! {}, mark).await.unwrap();
        assert!(orders.delete_source(1).await.unwrap().found);
        assert_eq!(orders.delete_source(2).await.unwrap_err().kind(), ErrorKind::Referenced);
        assert!(!is_marked(2).await);
    })
    .await;
}

/// The deletion checks the references while the insert has read the customer, and not stored its order yet.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn an_insert_that_overtakes_a_deletion_stops_it() {
    testkit::run(async |db| {
        let (slow, fast) = (with_customers(db).await, unrecorded(db));
        // The deletion of the source waits after its check.
        let blocked = block(db, "delete").await;
        let (deleted, inserted) = futures::join!(slow.delete_source(1).into_future(), async {
            db.recorder().sent(3).await;
            fast.insert(&order(7, 1)).await
        });
        blocked.disable().await;
        inserted.unwrap();
        assert_eq!(deleted.unwrap_err().kind(), ErrorKind::Referenced);
        assert_eq!(all(&customers(db)).await, [customer(1, "Ann"), customer(2, "Ann")]);
        assert_eq!(assert_current(db, &slow).await, 1);
    })
    .await;
}

/// Calls `insert` or `set_reference` of order 7 for customer 1, and another call while it writes. Returns both results.
async fn overtaken<T>(
    db: &TestDatabase,
    slow: &Orders,
    is_insert: bool,
    other: impl Future<Output = T>,
) -> (Result<(), Error>, T) {
    db.recorder().clear();
    let blocked = block(db, if is_insert { "insert" } else { "update" }).await;
    let write = async {
        match is_insert {
            true => slow.insert(&order(7, 1)).await.map(drop),
            false => slow.set_reference(7, 1).await.map(drop),
        }
    };
    let both = futures::join!(write, async {
        db.recorder().sent(2).await;
        other.await
    });
    blocked.disable().await;
    both
}

/// The source is deleted between the two reads of an insert, or of a `set_reference`.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_write_that_a_deletion_overtakes_is_withdrawn() {
    testkit::run(async |db| {
        for rule in [OnReferences::Restrict, OnReferences::Clear] {
            for is_insert in [true, false] {
                let (slow, fast) = (with_customers(db).await, unrecorded(db));
                if !is_insert {
                    fast.insert(&order(7, 2)).await.unwrap();
                }
                let (written, deleted) = overtaken(db, &slow, is_insert, delete(&fast, 1, rule)).await;
                assert!(deleted.0);
                let error = written.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                // The old reference was replaced, and the new one removed.
                let left = if is_insert {
                    vec![]
                } else {
                    vec![doc! { "_id": 7, "total": 5 }]
                };
                assert_eq!(all(&stored(db)).await, left, "{rule:?} {is_insert}");
                assert_eq!(findings(&slow).await, []);
            }
        }
    })
    .await;
}

/// A rename between the two reads of an insert, or of a `set_reference`.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_write_that_a_rename_overtakes_is_refreshed() {
    testkit::run(async |db| {
        for is_insert in [true, false] {
            let (slow, fast) = (with_customers(db).await, unrecorded(db));
            if !is_insert {
                fast.insert(&order(7, 2)).await.unwrap();
            }
            let renamed = fast.update_source(1, rename("Bea")).into_future();
            let (written, updated) = overtaken(db, &slow, is_insert, renamed).await;
            written.unwrap();
            assert_eq!(updated.unwrap().copies, 0, "the sweep came before the order");
            assert!(names(db).ends_with("find update"), "{is_insert}");
            assert_eq!(copy_in(db, 7).await.get_str("name").unwrap(), "Bea");
            assert_eq!(assert_current(db, &slow).await, 1);
        }
    })
    .await;
}

/// A slow sweep does not bring back the values of its older version.
#[tokio::test]
async fn a_sweep_that_another_one_overtakes_changes_nothing() {
    testkit::run(async |db| {
        let (slow, fast) = (with_customers(db).await, unrecorded(db));
        for id in 1..=3 {
            fast.insert(&order(id, 1)).await.unwrap();
        }
        db.recorder().clear();
        let blocked = block(db, "update").await;
        let (first, second) = futures::join!(slow.update_source(1, rename("Bea")).into_future(), async {
            db.recorder().sent(2).await;
            fast.update_source(1, rename("Cas")).await
        });
        blocked.disable().await;
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!((first.version, first.copies), (1, 0));
        assert_eq!((second.version, second.copies), (2, 3));
        assert_eq!(assert_current(db, &slow).await, 3);
        for id in 1..=3 {
            assert_eq!(copy_in(db, id).await.get_str("name").unwrap(), "Cas");
        }
    })
    .await;
}
