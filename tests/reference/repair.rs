//! What other programs and dead processes leave: `verify` names it, and `repair` corrects what can be known.

use futures::TryStreamExt;
use mongo_patterns::reference::{Finding, OnReferences};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use support::reference::*;

/// Stores orders 1 to 3 of customer 1, which is at version 2, and order 4 of customer 2.
async fn sound(db: &TestDatabase) -> Orders {
    let orders = with_customers(db).await;
    for (id, customer) in [(1, 1), (2, 1), (3, 1), (4, 2)] {
        orders.insert(&order(id, customer)).await.unwrap();
    }
    for name in ["Bea", "Cas"] {
        orders.update_source(1, rename(name)).await.unwrap();
    }
    assert_eq!(assert_current(db, &orders).await, 4);
    orders
}

async fn set(db: &TestDatabase, collection: &str, id: i32, field: &str, value: impl Into<Bson>) {
    let update = doc! { "$set": { field: value.into() } };
    let collection = db.plain_collection::<Document>(collection);
    let updated = collection.update_one(doc! { "_id": id }, update).await.unwrap();
    assert_eq!(updated.modified_count, 1);
}

/// A repair does not lower a version, and does not change what is correct.
#[tokio::test]
async fn a_repair_writes_only_what_is_damaged() {
    testkit::run(async |db| {
        let orders = sound(db).await;
        let before = contents(db).await;
        assert_eq!(repaired(&orders).await, []);
        assert_eq!(contents(db).await, before);
        set(db, "orders", 2, "customer.name", "Dan").await;
        repaired(&orders).await;
        let mut after = contents(db).await;
        assert_eq!(
            number(&after[1][0], "v"),
            3,
            "a version of its own, for the copies of this one"
        );
        assert_eq!(after[0][3], before[0][3], "the order of another customer");
        after[1][0].insert("v", 2_i64);
        assert_eq!(after[1], before[1]);
    })
    .await;
}

/// A customer that was deleted and is inserted again starts with version 0, behind the copies that were kept.
#[tokio::test]
async fn a_customer_that_is_inserted_again_continues_after_a_repair() {
    testkit::run(async |db| {
        let orders = sound(db).await;
        delete(&orders, 1, OnReferences::KeepCopy).await;
        assert_eq!(findings(&orders).await, []);
        customers(db).insert_one(customer(1, "Eve")).await.unwrap();
        assert_eq!(findings(&orders).await.len(), 3);
        let repaired = repaired(&orders).await;
        assert!(
            repaired.iter().all(|repaired| repaired.unrepaired.is_none()),
            "{repaired:?}"
        );
        assert_eq!(assert_current(db, &orders).await, 4);
        let copy = copy_in(db, 1).await;
        assert_eq!(
            (copy.get_str("name").ok(), copy.contains_key("deleted")),
            (Some("Eve"), false)
        );
    })
    .await;
}

/// More documents than one batch, with damage in several.
#[tokio::test]
async fn damage_is_found_in_every_batch() {
    testkit::run(async |db| {
        let orders = with_customers(db).await;
        let copy = |version: i64| doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": version };
        let stale = [0, 499, 500, 1200, 1201];
        set(db, "customers", 1, "v", 1_i64).await;
        let all = (0..1202).map(|id| {
            let version = i64::from(!stale.contains(&id));
            doc! { "_id": id, "customer": copy(version) }
        });
        stored(db).insert_many(all).await.unwrap();
        let mut seen = 0;
        let verify = orders.verify().on_progress(|progress| seen = progress.done);
        let found: Vec<Finding> = verify.stream().try_collect().await.unwrap();
        let ids = found.iter().map(|finding| finding.document_id.as_i32().unwrap());
        let mut ids: Vec<i32> = ids.collect();
        ids.sort_unstable();
        assert_eq!(ids, stale);
        assert_eq!(seen, 1202);
        let repaired = repaired(&orders).await;
        assert!(!repaired.is_empty());
        assert_eq!(assert_current(db, &orders).await, 1202);
    })
    .await;
}
