//! Buckets with a bound of bytes: changes of items, damage, settings, concurrent writers, streams and large items.

use futures::future::{join_all, try_join_all};
use futures::stream;
use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::{IdPolicy, Problem};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::bucket::bytes::*;
use support::bucket::bytes::*;
use support::bucket::figures::{plain_builder, prepared};
use support::bucket::*;
use support::common::*;

#[tokio::test]
async fn a_change_of_an_item_keeps_the_bytes_and_a_full_bucket_stays_full() {
    testkit::run(async |db| {
        let orders = prepared(db, bounded(db)).await;
        let items: Vec<Document> = (0..4).map(|n| sized(n, 400)).collect();
        orders.append_many(&123, &items).await.unwrap();
        assert_eq!(pages(db).await, [(vec![0, 1], 1000), (vec![2, 3], 800)]);
        db.recorder().clear();
        orders.replace_item(&123, &sized(0, 100)).await.unwrap();
        assert_eq!(sent(db), ["update"]);
        let shorter = doc! { "$set": { "text": "" } };
        let updated = orders.update_item(&123, 3_i64, shorter.clone()).await.unwrap();
        assert!(updated.modified);
        assert_eq!(sent(db), ["findAndModify", "findAndModify"]);
        assert!(!orders.update_item(&123, 3_i64, shorter).await.unwrap().modified);
        let empty = bytes_of(&doc! { "n": 3_i64, "date": at(SECOND), "text": "" });
        let open = 400 + i64::try_from(empty).unwrap();
        assert_eq!(pages(db).await, [(vec![0, 1], 1000), (vec![2, 3], open)]);
        check(db, &orders).await;
        // An update can exceed the bound. The bucket is full then, and a repair splits it.
        orders.replace_item(&123, &sized(2, 1500)).await.unwrap();
        orders.append(&123, &sized(5, 100)).await.unwrap();
        let sum = 1500 + i64::try_from(empty).unwrap();
        assert_eq!(pages(db).await[1..], [(vec![2, 3], sum), (vec![5], 100)]);
        let bytes = sum.unsigned_abs();
        assert_eq!(problems(&orders).await, [Problem::TooManyBytes { bytes }]);
        repair(&orders).await;
        check(db, &orders).await;
        let stored: Vec<Document> = collected(orders.items(&123).stream()).await;
        let numbers = stored.iter().map(|item| item.get_i64("n").unwrap());
        assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2, 3, 5]);
    })
    .await;
}

#[tokio::test]
async fn a_removal_moves_the_items_up_by_their_bytes() {
    testkit::run(async |db| {
        let orders = prepared(db, bounded(db)).await;
        let items: Vec<Document> = (0..7).map(|n| sized(n, 400)).collect();
        orders.append_many(&123, &items).await.unwrap();
        assert!(orders.remove_item(&123, 0_i64).await.unwrap().found);
        assert_eq!(
            pages(db).await,
            [(vec![1, 2], 1000), (vec![3, 4], 1000), (vec![5, 6], 800)]
        );
        check(db, &orders).await;
        // In the open bucket, by one command.
        db.recorder().clear();
        assert!(orders.remove_item(&123, 6_i64).await.unwrap().found);
        assert_eq!(sent(db), ["find", "update"]);
        assert_eq!(pages(db).await[2..], [(vec![5], 400)]);
        // A large item is a bucket, and no item moves.
        orders
            .append_many(&123, &[sized(7, 2000), sized(8, 400)])
            .await
            .unwrap();
        db.recorder().clear();
        assert!(orders.remove_item(&123, 7_i64).await.unwrap().found);
        assert_eq!(sent(db), ["find", "delete"]);
        assert_eq!(pages(db).await[2..], [(vec![5], 1000), (vec![8], 400)]);
        check(db, &orders).await;
        orders.remove_before(&123, at(SECOND + 2)).exact().await.unwrap();
        assert_eq!(
            pages(db).await,
            [(vec![2, 3], 1000), (vec![4, 5], 1000), (vec![8], 400)]
        );
        check(db, &orders).await;
    })
    .await;
}

#[tokio::test]
async fn no_append_to_a_bucket_with_wrong_bytes_is_lost() {
    testkit::run(async |db| {
        let orders = prepared(db, bounded(db)).await;
        let wrong: [Bson; 6] = [
            0.5.into(),
            850.0.into(),
            850_i64.into(),
            (-5).into(),
            2000.into(),
            "850".into(),
        ];
        for (key, wrong) in (0..).zip(wrong) {
            orders.append(&key, &sized(0, 300)).await.unwrap();
            let set = doc! { "$set": { "bytes": wrong } };
            plain(db).update_one(doc! { "customerId": key }, set).await.unwrap();
            orders
                .append_many(&key, &[sized(1, 100), sized(2, 100), sized(3, 900)])
                .await
                .unwrap();
            orders.append(&key, &sized(4, 300)).await.unwrap();
            let stored: Vec<Document> = collected(orders.items(&key).stream()).await;
            assert_eq!(stored.len(), 5);
        }
        repair(&orders).await;
        check(db, &orders).await;
    })
    .await;
}

#[tokio::test]
async fn settings_of_other_bounds_are_refused() {
    testkit::run(async |db| {
        let orders = prepared(db, bounded(db).bytes_field("size")).await;
        orders.append(&1, &sized(1, 100)).await.unwrap();
        assert_eq!(all(&plain(db)).await[0].get_i32("size").unwrap(), 100);
        // Writers with another bound, or none, are refused.
        for other in [
            bounded(db),
            bounded(db).bytes_field("size").max_bucket_bytes(999),
            plain_builder(db).page_size(5),
        ] {
            let other = other.build().unwrap();
            assert_refused(other.append(&1, &sized(2, 100)).await, ErrorKind::IndexMissing);
            assert_refused(other.ensure_indexes().await, ErrorKind::SettingsMismatch);
        }
        let flat = db.collection::<Document>("flat");
        assert_refused(orders.migrate_from_flat(&flat).await, ErrorKind::Unsupported);
        let validator = orders.validators().remove(0).document;
        let update = doc! { "collMod": "trades", "validator": validator };
        let database = db.plain_client().database(db.database().name());
        database.run_command(update).await.unwrap();
        for n in 2..20 {
            orders.append(&1, &sized(n, 300)).await.unwrap();
        }
        let unset = plain(db).update_one(doc! {}, doc! { "$unset": { "size": "" } }).await;
        assert!(unset.is_err());
    })
    .await;
}

/// Writers of all kinds, of items of any size.
async fn everything_at_once(db: &TestDatabase, policy: IdPolicy) {
    const WRITERS: i64 = 12;
    const APPENDS: i64 = 40;
    plain(db).drop().await.unwrap();
    // Four repositories, so that writers meet in lanes and on the server.
    prepared(db, bounded(db).id_policy(policy)).await;
    let repositories = [(); 4].map(|()| bounded(db).id_policy(policy).build().unwrap());
    let writers = (0..WRITERS).map(|writer| {
        let orders = repositories[usize::try_from(writer % 4).unwrap()].clone();
        tokio::spawn(async move {
            for step in 0..APPENDS {
                let n = step * 100 + writer;
                let bytes = 60 + fastrand::usize(..if step % 10 == 0 { 1500 } else { 500 });
                match step % 8 {
                    3 => {
                        let several: Vec<Document> = (0..5).map(|of| sized(n + of * 12, bytes)).collect();
                        orders.append_many(&1, &several).await.unwrap();
                    }
                    6 => {
                        orders.append(&1, &sized(n, bytes)).await.unwrap();
                        assert!(orders.append(&1, &sized(n, bytes)).await.unwrap().already_there);
                        assert!(orders.remove_item(&1, n).await.unwrap().found);
                    }
                    _ => drop(orders.append(&1, &sized(n, bytes)).await.unwrap()),
                }
            }
        })
    });
    for writer in join_all(writers.collect::<Vec<_>>()).await {
        writer.unwrap();
    }
    let orders = bounded(db).id_policy(policy).build().unwrap();
    check(db, &orders).await;
    let stored: Vec<Document> = collected(orders.items(&1).stream()).await;
    let mut found: Vec<i64> = stored.iter().map(|item| item.get_i64("n").unwrap()).collect();
    let expected = (0..WRITERS).flat_map(|writer| {
        (0..APPENDS).flat_map(move |step| {
            let n = step * 100 + writer;
            match step % 8 {
                3 => (0..5).map(|of| n + of * 12).collect(),
                6 => vec![],
                _ => vec![n],
            }
        })
    });
    let mut expected: Vec<i64> = expected.collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: cargo xtask ci"]
async fn concurrent_writers_never_exceed_the_bound() {
    testkit::run(async |db| {
        everything_at_once(db, IdPolicy::ItemTime).await;
        everything_at_once(db, IdPolicy::Monotonic).await;
    })
    .await;
}

/// Each writer's items are in its order, whatever the others do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_appends_keep_their_order() {
    testkit::run(async |db| {
        let ready = prepared(db, bounded(db).id_policy(IdPolicy::Monotonic)).await;
        let writers = (0..8_i64).map(|writer| {
            // Half of the writers share lanes.
            let orders = if writer % 2 == 0 {
                ready.clone()
            } else {
                bounded(db).id_policy(IdPolicy::Monotonic).build().unwrap()
            };
            async move {
                for step in 0..40 {
                    // In one second, so that the order of buckets is that in which they were opened.
                    let mut item = sized(step * 10 + writer, 60 + fastrand::usize(..600));
                    item.insert("date", at(SECOND));
                    orders.append(&1, &item).await?;
                }
                Ok::<_, mongo_patterns::Error>(())
            }
        });
        try_join_all(writers).await.unwrap();
        check(db, &ready).await;
        let stored: Vec<Document> = collected(ready.items(&1).stream()).await;
        assert_eq!(stored.len(), 320);
        let numbers: Vec<i64> = stored.iter().map(|item| item.get_i64("n").unwrap()).collect();
        for writer in 0..8 {
            let own: Vec<i64> = numbers.iter().copied().filter(|n| n % 10 == writer).collect();
            assert!(own.is_sorted(), "{own:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_of_many_keys_is_cut_by_bytes() {
    testkit::run(async |db| {
        let orders = prepared(db, bounded(db)).await;
        let item = |n: u32| (n % 3, sized(n.into(), 60 + fastrand::usize(..700)));
        let items: Vec<(u32, Document)> = (0..120).map(item).collect();
        orders.append_stream(stream::iter(items.clone())).await.unwrap();
        check(db, &orders).await;
        for key in 0..3 {
            let stored = collected(orders.items(&key).stream()).await;
            let of_key = items.iter().filter(|(of, _)| *of == key).map(|(_, item)| item);
            assert!(stored.iter().eq(of_key));
            let newest = orders.newest(&key, 25).await.unwrap();
            assert!(newest.iter().eq(stored.iter().rev().take(25)));
            let skipped = collected(orders.items(&key).skip(30).stream()).await;
            assert_eq!(skipped, stored[30..]);
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn large_items_need_no_small_pages() {
    const BYTES: usize = 2 * 1024 * 1024;
    testkit::run(async |db| {
        let items: Vec<Document> = (0..10).map(|n| sized(n, BYTES)).collect();
        let bound = 4 * u32::try_from(BYTES).unwrap();
        let orders = prepared(db, plain_builder(db).page_size(50).max_bucket_bytes(bound)).await;
        orders.append_many(&1, &items).await.unwrap();
        for item in &items {
            orders.append(&2, item).await.unwrap();
        }
        let keyed: Vec<(u32, Document)> = items.iter().map(|item| (3, item.clone())).collect();
        orders.append_stream(stream::iter(keyed)).await.unwrap();
        assert_eq!(violations_of(&all(&plain(db)).await, bound, 50), [""; 0]);
        for key in 1..=3 {
            assert!(collected(orders.items(&key).stream()).await == items);
        }
        assert!(orders.remove_item(&1, 1_i64).await.unwrap().found);
        assert_eq!(problems(&orders).await, []);
    })
    .await;
}
