//! Calls in a session and a transaction of the caller.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::ClientSession;
use mongodb::bson::doc;
use mongodb::bson::oid::ObjectId;
use mongodb::error::TRANSIENT_TRANSACTION_ERROR;

use support::common::{all, until_blocked};
use support::reference::*;

async fn session(db: &TestDatabase) -> ClientSession {
    db.client().start_session().await.unwrap()
}

/// The transaction has locked the source, so that the rename waits for it, and then finds its order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rename_waits_for_a_transaction_that_inserts() {
    testkit::run(async |db| {
        for is_insert in [true, false] {
            let orders = with_customers(db).await;
            orders.insert(&order(7, 2)).await.unwrap();
            let mut session = session(db).await;
            session.start_transaction().await.unwrap();
            if is_insert {
                orders.insert(&order(8, 1)).session(&mut session).await.unwrap();
            } else {
                orders.set_reference(7, 1).session(&mut session).await.unwrap();
            }
            let renames = {
                let orders = orders.clone();
                tokio::spawn(async move { orders.update_source(1, rename("Bea")).await })
            };
            until_blocked(db, doc! { "command.findAndModify": "customers" }).await;
            session.commit_transaction().await.unwrap();
            let updated = renames.await.unwrap().unwrap();
            assert_eq!((updated.version, updated.copies), (1, 1), "{is_insert}");
            assert_eq!(assert_current(db, &orders).await, if is_insert { 2 } else { 1 });
        }
    })
    .await;
}

/// The snapshot of the transaction does not have the rename, so its insert conflicts.
#[tokio::test]
async fn a_transaction_conflicts_with_a_rename_after_its_snapshot() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        let mut session = session(db).await;
        session.start_transaction().await.unwrap();
        orders.get(7).session(&mut session).await.unwrap();
        orders.update_source(1, rename("Bea")).await.unwrap();
        let error = orders.insert(&order(8, 1)).session(&mut session).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contention, "{error:?}");
        assert!(error.attempts().is_none());
        let driver = mongodb::error::Error::from(error);
        assert!(driver.contains_label(TRANSIENT_TRANSACTION_ERROR), "{driver}");
        assert!(all(&stored(db)).await.is_empty());
    })
    .await;
}

/// The deletion has checked the references, and the transaction has stored one: the mark is gone at its commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_inserts_stops_a_deletion() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        // A deletion after its check.
        let mark = ObjectId::new();
        let set = doc! { "$set": { "mongo_patterns_deleting": mark } };
        customers(db).update_one(doc! { "_id": 1 }, set).await.unwrap();
        let mut session = session(db).await;
        session.start_transaction().await.unwrap();
        orders.insert(&order(7, 1)).session(&mut session).await.unwrap();
        session.commit_transaction().await.unwrap();
        let marked = doc! { "_id": 1, "mongo_patterns_deleting": mark };
        let deleted = customers(db).delete_one(marked).await.unwrap();
        assert_eq!(deleted.deleted_count, 0);
        assert_eq!(assert_current(db, &orders).await, 1);
    })
    .await;
}

/// What the documentation says: an insert outside of a transaction does not see the rename in it, and a refresh corrects it.
#[tokio::test]
async fn an_insert_beside_a_transaction_that_renames_needs_a_refresh() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        orders.insert(&order(7, 1)).await.unwrap();
        let mut session = session(db).await;
        session.start_transaction().await.unwrap();
        let updated = orders
            .update_source(1, rename("Bea"))
            .session(&mut session)
            .await
            .unwrap();
        assert_eq!(updated.copies, 1);
        orders.insert(&order(8, 1)).await.unwrap();
        session.commit_transaction().await.unwrap();
        assert_eq!(judge(db).await.stale, 1);
        assert_eq!(orders.refresh_copies(1).await.unwrap().copies, 2);
        assert_eq!(assert_current(db, &orders).await, 2);
    })
    .await;
}
