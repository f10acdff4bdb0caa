//! What a follower sends, what it refuses, and what processes left that died.

use mongo_patterns::ErrorKind;
use mongo_patterns::reference::Reference;
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use support::reference::follow::*;
use support::reference::migrate::rename_unnoticed;
use support::reference::*;

/// An `update_source` that died before its sweep, and an insert that died before its second read.
#[tokio::test]
async fn what_dead_processes_left_is_completed() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        for id in 1..=3 {
            orders.insert(&order(id, 1)).await.unwrap();
        }
        // The first commands of the two calls.
        rename_unnoticed(db, 1, "Bea").await;
        let stale = doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": 0_i64 };
        let order = doc! { "_id": 4, "customer": stale };
        stored(db).insert_one(order).await.unwrap();
        assert_eq!(judge(db).await.stale, 4);
        assert_eq!(corrected(db, &orders, "").await, 4);
        assert_current(db, &orders).await;
        assert_eq!(number(&copy_in(db, 4).await, "v"), 1, "the version need not be raised");
    })
    .await;
}

/// Follows until there are no more changes. Returns their number, that of updated copies, and that of runs.
async fn until_idle(orders: &Orders) -> (u64, u64, usize) {
    let (mut changes, mut copies) = (0, 0);
    for runs in 1.. {
        let followed = follow(orders).await;
        changes += followed.changes;
        copies += followed.written;
        if followed.changes == 0 {
            return (changes, copies, runs);
        }
    }
    unreachable!()
}

/// 2,000 copies of a renamed source and 2,000 sources without references need few commands.
#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn many_changes_need_few_round_trips() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        let copy = doc! { "_id": 1, "name": "Ann", "address": { "city": "Dublin" }, "v": 0_i64 };
        let many = (0..2000).map(|id| doc! { "_id": id, "customer": copy.clone() });
        stored(db).insert_many(many).await.unwrap();
        until_idle(&orders).await;
        db.recorder().clear();
        update_plainly(db, 1, rename("Bea")).await;
        let (changes, copies, runs) = until_idle(&orders).await;
        assert_eq!(
            (changes, copies),
            (1 + 1 + 2000, 2000),
            "the rename, and its own changes"
        );
        assert_eq!(sent(db, "findAndModify", "customers"), 1);
        // Older and newer copies, for the rename and for the raised version.
        assert_eq!(sent(db, "update", "orders"), 2);
        assert_eq!(sent(db, "aggregate", "orders"), 2);
        // The time of the last write in each run; the first copies, of which one differs; two for each 500 documents,
        // whose changes the server may send in several batches.
        let batches = sent(db, "update", "mongo_patterns");
        let read = sent(db, "find", "orders");
        assert!(read <= runs + 1 + 4 + batches, "{read} of {batches} batches");
        // The source twice for the rename, and once for its raised version.
        let read = sent(db, "find", "customers");
        assert!(read <= runs + 2 + 1 + 4 + batches, "{read} of {batches} batches");
        assert!(batches <= 20, "{batches}");

        // Changes that no copy depends on are not read.
        db.recorder().clear();
        let total = doc! { "$inc": { "total": 1 } };
        stored(db).update_many(doc! {}, total).await.unwrap();
        stored(db).delete_many(doc! { "_id": { "$gte": 1000 } }).await.unwrap();
        let visits = doc! { "$inc": { "visits": 1 } };
        customers(db).update_many(doc! {}, visits).await.unwrap();
        let (changes, copies, runs) = until_idle(&orders).await;
        assert_eq!((changes, copies), (3003, 0));
        // The time of the last write.
        assert_eq!([sent(db, "find", "orders"), sent(db, "find", "customers")], [runs; 2]);
        assert_eq!(sent(db, "aggregate", "orders") + sent(db, "update", "orders"), 0);

        // New sources, to which nothing refers.
        db.recorder().clear();
        let new = (100..2100).map(|id| customer(id, "Cas"));
        customers(db).insert_many(new).await.unwrap();
        let (changes, copies, runs) = until_idle(&orders).await;
        assert_eq!((changes, copies), (2000, 0));
        let read = sent(db, "aggregate", "orders");
        assert!((4..=4 + sent(db, "update", "mongo_patterns")).contains(&read), "{read}");
        assert_eq!([sent(db, "find", "orders"), sent(db, "find", "customers")], [runs; 2]);
        assert_eq!(sent(db, "update", "orders"), 0);
        assert_current(db, &orders).await;
    })
    .await;
}

/// The server sends paths and no values.
#[tokio::test]
async fn documents_may_have_the_size_limit() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        let large = |size: usize| {
            let mut order = order(1, 1);
            order.insert("text", "x".repeat(size));
            order
        };
        stored(db).insert_one(large(15_000_000)).await.unwrap();
        let larger = large(16_000_000);
        stored(db).replace_one(doc! { "_id": 1 }, larger).await.unwrap();
        let text = doc! { "$set": { "text": "y".repeat(16_000_000), "customer.name": "wrong" } };
        stored(db).update_one(doc! { "_id": 1 }, text).await.unwrap();
        update_plainly(db, 1, doc! { "$set": { "text": "z".repeat(16_000_000) } }).await;
        assert!(follow(&orders).await.changes >= 4);
        assert_current(db, &orders).await;
    })
    .await;
}

#[tokio::test]
async fn a_name_belongs_to_collections_and_fields() {
    testkit::run(async |db| {
        let _orders = followed(db, builder(db.database())).await;
        let record = records(db).await;
        let payer = || Reference::new("payer").copied_fields(["name"]);
        for other in [
            builder(db.database()).version_field("version"),
            builder(db.database()).add_reference(payer()),
            builder(db.database()).add_referring(db.database().collection::<Document>("invoices"), payer()),
        ] {
            let other = ready(db, other).await;
            let error = other.follow(NAME).run_until_current().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
            assert!(error.to_string().contains("another name"), "{error}");
            assert_eq!(records(db).await, record);
        }
        // A follower with other copied fields is the same one, but the catalog has its settings.
        let more = builder(db.database()).copied_fields(["mail"]).build().unwrap();
        let error = more.follow(NAME).run_until_current().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch, "{error:?}");
        more.ensure_indexes().replace_settings().await.unwrap();
        assert_eq!(follow(&more).await.repaired, 0);
    })
    .await;
}

/// The error names the source, and the next follower resumes.
#[tokio::test]
async fn a_document_that_would_become_too_large_ends_it() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        let mut large = order(1, 1);
        large.insert("text", "x".repeat(16_777_000));
        stored(db).insert_one(large).await.unwrap();
        for name in ["inserted", "renamed"] {
            update_plainly(db, 1, rename(&name.repeat(50))).await;
            let error = orders.follow(NAME).run_until_current().await.unwrap_err();
            assert_eq!(
                (error.kind(), error.document_id()),
                (ErrorKind::TooLarge, Some(&1.into()))
            );
            assert!(!error.to_string().contains(name), "{error}");
        }
        let text = doc! { "$unset": { "text": "" } };
        stored(db).update_one(doc! { "_id": 1 }, text).await.unwrap();
        assert_eq!(corrected(db, &orders, "smaller").await, 1);
    })
    .await;
}
