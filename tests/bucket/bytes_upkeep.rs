//! Buckets with a bound of bytes: changes of items, damage, and settings.

use mongo_patterns::bucket::Problem;
use mongo_patterns::{ErrorKind, ItemSteps};
use mongo_patterns_testkit::{self as testkit};
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
async fn a_conversion_of_items_keeps_the_bytes() {
    testkit::run(async |db| {
        let orders = prepared(db, bounded(db)).await;
        let items: Vec<Document> = (0..5).map(|n| sized(n, 300)).collect();
        orders.append_many(&123, &items).await.unwrap();
        let steps = ItemSteps::new().step(1, |mut old: Document| {
            old.insert("text", "short");
            Ok(old)
        });
        orders.migrate_items(steps).await.unwrap();
        let found = pages(db).await;
        assert_eq!(found[0], (vec![0, 1, 2], 1000));
        assert!(found[1].1 < 200, "{found:?}");
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
            let error = other.append(&1, &sized(2, 100)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IndexMissing);
            let error = other.ensure_indexes().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SettingsMismatch);
        }
        let flat = db.collection::<Document>("flat");
        let error = orders.migrate_from_flat(&flat).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
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
