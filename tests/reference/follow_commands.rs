//! What a follower sends, and what processes left that died.

use futures::TryStreamExt;
use mongo_patterns::reference::Repaired;
use mongo_patterns_testkit as testkit;
use mongodb::bson::doc;
use tokio::sync::oneshot;

use support::reference::follow::*;
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
        let update = doc! { "$set": { "name": "Bea" }, "$inc": { "v": 1_i64 } };
        update_plainly(db, 1, update).await;
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
        db.recorder().clear();
        assert!(follow(&orders).await.changes >= 4);
        let commands = db.recorder().commands();
        let events = commands.iter().filter_map(|command| {
            let cursor = command.reply.as_ref()?.get_document("cursor").ok()?;
            let batch = cursor
                .get_array("firstBatch")
                .or_else(|_| cursor.get_array("nextBatch"));
            let first = batch.ok()?.first()?.as_document()?;
            first.contains_key("operationType").then(|| first.clone())
        });
        for event in events {
            let mut fields: Vec<&String> = event.keys().collect();
            fields.retain(|field| !["removed", "truncated"].contains(&field.as_str()));
            assert_eq!(
                fields,
                ["_id", "operationType", "ns", "documentKey", "updated"],
                "{event}"
            );
        }
        assert_current(db, &orders).await;
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_stopped_follower_leaves_no_work_to_repeat() {
    testkit::run(async |db| {
        let orders = followed(db, builder(db.database())).await;
        let (stop, stopped) = oneshot::channel::<()>();
        let mut stop = Some(stop);
        let mut seen = Vec::new();
        let follow_them = orders.follow(NAME).until(async { drop(stopped.await) });
        let follow_them = follow_them.on_progress(|at| {
            seen.push(at);
            if at.changes >= 20 {
                drop(stop.take());
            }
        });
        let (followed, ()) = tokio::join!(follow_them.into_future(), async {
            // The follower has begun by then.
            db.recorder().sent(8).await;
            for id in 0..60 {
                stored(db).insert_one(order(id, id % 3 + 1)).await.unwrap();
            }
        });
        let followed = followed.unwrap();
        assert!(followed.changes >= 20, "{followed:?}");
        assert_eq!(seen.last(), Some(&followed));
        let in_order = seen
            .windows(2)
            .all(|pair| pair[0].up_to <= pair[1].up_to && pair[0].changes <= pair[1].changes);
        assert!(in_order, "{seen:?}");
        let rest = follow(&orders).await;
        assert_eq!((followed.written + rest.written, rest.repaired), (60, 0));
        assert_current(db, &orders).await;
        // A follower that is stopped before it begins does nothing.
        let stopped = orders.follow("another").until(std::future::ready(())).await.unwrap();
        assert_eq!((stopped.repaired, stopped.up_to), (0, None));
        assert_eq!(records(db).await.len(), 1);
    })
    .await;
}

/// What other programs wrote before the first follower is repaired.
#[tokio::test]
async fn the_first_follower_repairs_what_was_written_before() {
    testkit::run(async |db| {
        let orders = followed(db, of_all_kinds(db)).await;
        update_plainly(db, 1, rename("Bea")).await;
        let write = async || {
            stored(db).delete_many(doc! {}).await.unwrap();
            stored(db).insert_many((1..=3).map(|id| order(id, id))).await.unwrap();
        };
        write().await;
        let disabled = orders.follow("later").disable_repair().run_until_current();
        let disabled = disabled.await.unwrap();
        assert_eq!((disabled.repaired, disabled.written, disabled.changes), (0, 0, 0));
        assert_eq!(findings(&orders).await.len(), 3);
        let first = orders.follow("first").run_until_current().await.unwrap();
        assert_eq!(first.repaired, 1);
        assert_eq!(findings(&orders).await, []);
        write().await;
        let found: Vec<Repaired> = orders.repair().dry_run().stream().try_collect().await.unwrap();
        assert_eq!(found.len(), 3);
        for name in ["later", "first", NAME] {
            orders.follow(name).run_until_current().await.unwrap();
            assert_eq!(findings(&orders).await, [], "{name}");
        }
        assert_eq!(records(db).await.len(), 3);
    })
    .await;
}
