//! Sources and targets that a migration refuses, with nothing written.

use mongo_patterns::ErrorKind;
use mongo_patterns::bucket::BucketRepository;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Binary, Bson, DateTime, Document, doc, spec::BinarySubtype};
use mongodb::options::WriteConcern;

use crate::bucket::migration::*;
use crate::common::support::*;

fn good(id: i32) -> Document {
    doc! { "_id": id, "customerId": id, "date": at(SECOND), "tradeId": id }
}

/// Migrates this document among valid ones. The error must have the number of such documents and name one.
async fn refused(db: &TestDatabase, trades: &Histories<u32>, bad: Document, kind: ErrorKind, field: &str) {
    let mut other = bad.clone();
    other.insert("_id", 8);
    fill(db, &[good(1), bad.clone(), good(2), other, good(3)]).await;
    let error = trades.migrate_from_flat(&flat(db)).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{bad}: {error:?}");
    assert!(error.to_string().contains("2 documents"), "{error}");
    assert_eq!(
        (error.document_id(), error.field()),
        (Some(&Bson::Int32(9)), Some(field))
    );
    assert!(error.is_invalid_input() && error.operation() == Some("migrate_from_flat"));
    nothing_is_stored(db).await;
}

/// Drivers store the bytes of a UUID in different orders under the legacy subtype, so no order is guessed.
#[tokio::test]
async fn keys_of_other_forms_are_named() {
    testkit::run(async |db| {
        let trades = histories::<u32>(db).build().unwrap();
        let mut bad = good(9);
        bad.insert("customerId", doc! { "site": "a", "sensor": 1 });
        fill(db, &[good(1), bad.clone()]).await;
        let error = trades.migrate_from_flat(&flat(db)).await.unwrap_err();
        assert!(
            error.kind() == ErrorKind::InvalidKey && error.to_string().contains("view"),
            "{error}"
        );
        let error = trades
            .migrate_from_flat(&flat(db))
            .key_field("meta.sensor")
            .await
            .unwrap_err();
        assert!(
            error.kind() == ErrorKind::Configuration && error.to_string().contains("view"),
            "{error}"
        );
        let bytes = vec![0; 16];
        for (subtype, is_named) in [(BinarySubtype::UuidOld, true), (BinarySubtype::Generic, false)] {
            let bytes = bytes.clone();
            bad.insert("customerId", Binary { subtype, bytes });
            fill(db, &[good(1), bad.clone()]).await;
            let error = trades.migrate_from_flat(&flat(db)).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.document_id()),
                (ErrorKind::InvalidKey, Some(&9.into()))
            );
            assert_eq!(error.to_string().contains("legacy subtype 3"), is_named, "{error}");
            nothing_is_stored(db).await;
        }
    })
    .await;
}

#[tokio::test]
async fn documents_that_cannot_be_items() {
    testkit::run(async |db| {
        let trades = histories::<u32>(db).item_id_field("tradeId").build().unwrap();
        let with = |field: &str, value: Bson| {
            let mut document = good(9);
            document.insert(field, value);
            document
        };
        let without = |field: &str| {
            let mut document = good(9);
            document.remove(field);
            document
        };
        let uuid_old = Binary {
            subtype: BinarySubtype::UuidOld,
            bytes: vec![0; 16],
        };
        let keys: [Bson; 8] = [
            "9".into(),
            9.5.into(),
            (-1).into(),
            (1_i64 << 32).into(),
            Bson::Null,
            vec![9].into(),
            f64::NAN.into(),
            uuid_old.into(),
        ];
        for key in keys {
            refused(
                db,
                &trades,
                with("customerId", key),
                ErrorKind::InvalidKey,
                "customerId",
            )
            .await;
        }
        refused(db, &trades, without("customerId"), ErrorKind::InvalidKey, "customerId").await;
        let late = DateTime::from_millis(10_000_000_000_000);
        for time in [
            "2023".into(),
            SECOND.into(),
            Bson::Null,
            at(-1).into(),
            late.into(),
            vec![at(SECOND)].into(),
        ] {
            refused(db, &trades, with("date", time), ErrorKind::InvalidTime, "date").await;
        }
        refused(db, &trades, without("date"), ErrorKind::InvalidTime, "date").await;
        for id in [1.5.into(), Bson::Null, vec![1].into()] {
            refused(db, &trades, with("tradeId", id), ErrorKind::InvalidItemId, "tradeId").await;
        }
        refused(db, &trades, without("tradeId"), ErrorKind::InvalidItemId, "tradeId").await;
    })
    .await;
}

#[tokio::test]
async fn keys_that_are_too_long_and_ids_that_repeat() {
    testkit::run(async |db| {
        let by_name = histories::<String>(db).build().unwrap();
        for key in ["k".repeat(1025), "_".repeat(342)] {
            fill(db, &[doc! { "_id": 9, "customerId": key, "date": at(SECOND) }]).await;
            let error = by_name.migrate_from_flat(&flat(db)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidKey, "{error:?}");
            assert!(!error.to_string().contains("kkk"));
            nothing_is_stored(db).await;
        }

        let with_ids = histories::<u32>(db).item_id_field("tradeId").build().unwrap();
        let trade = |id: i32, key: i32, trade: Bson| doc! { "_id": id, "customerId": key, "date": at(SECOND), "tradeId": trade };
        fill(db, &[trade(1, 5, 1.into()), trade(2, 6, 1.into()), trade(3, 5, 1_i64.into())]).await;
        let error = with_ids.migrate_from_flat(&flat(db)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidItemId, "{error:?}");
        assert!(error.to_string().contains("2 documents"), "{error}");
        nothing_is_stored(db).await;

        flat(db).delete_one(doc! { "_id": 3 }).await.unwrap();
        assert_eq!(with_ids.migrate_from_flat(&flat(db)).await.unwrap().items, 2, "two keys may have the same item id");
    })
    .await;
}

#[tokio::test]
async fn pages_that_would_exceed_the_limit_of_a_document() {
    testkit::run(async |db| {
        let text = "x".repeat(2_000_000);
        let large =
            |id: i32| doc! { "_id": id, "customerId": 1 + id % 2, "date": at(SECOND + i64::from(id)), "text": &text };
        let documents: Vec<Document> = (0..18).map(large).collect();
        fill(db, &documents).await;
        let error = histories::<u32>(db)
            .build()
            .unwrap()
            .migrate_from_flat(&flat(db))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error:?}");
        assert!(error.to_string().contains("2 pages"), "{error}");
        nothing_is_stored(db).await;

        let smaller = histories::<u32>(db).page_size(8).build().unwrap();
        let migrated = smaller.migrate_from_flat(&flat(db)).await.unwrap();
        assert_eq!((migrated.items, migrated.buckets), (18, 4));
    })
    .await;
}

#[tokio::test]
async fn invalid_settings() {
    testkit::run(async |db| {
        fill(db, &[good(1)]).await;
        let flat = flat(db);
        let trades = histories::<u32>(db).build().unwrap();
        let timeless = BucketRepository::<u32, Document>::builder(db.collection::<Document>("trades"))
            .key_field("customerId")
            .items_field("history");
        let by_customer = histories::<u32>(db).item_id_field("customerId2").build().unwrap();
        let elsewhere = db.plain_client().database("elsewhere").collection::<Document>("flat");
        let itself = db.plain_collection::<Document>("trades");
        db.recorder().clear();
        let configuration = [
            timeless.build().unwrap().migrate_from_flat(&flat).await.unwrap_err(),
            by_customer
                .migrate_from_flat(&flat)
                .key_field("customerId2")
                .await
                .unwrap_err(),
            trades.migrate_from_flat(&flat).key_field("a.b").await.unwrap_err(),
            trades.migrate_to_flat(&flat).key_field("_id").await.unwrap_err(),
        ];
        for error in configuration {
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error:?}");
        }
        let unconfirmed = db
            .plain_client()
            .database(db.database().name())
            .collection_with_options::<Document>(
                "other",
                mongodb::options::CollectionOptions::builder()
                    .write_concern(WriteConcern::nodes(0))
                    .build(),
            );
        let arguments = [
            trades.migrate_from_flat(&elsewhere).await.unwrap_err(),
            trades.migrate_to_flat(&elsewhere).await.unwrap_err(),
            trades.migrate_from_flat(&itself).await.unwrap_err(),
            trades.migrate_from_flat(&flat).chunk(0).await.unwrap_err(),
            trades.migrate_to_flat(&unconfirmed).await.unwrap_err(),
        ];
        for error in arguments {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
        }
        assert_eq!(db.recorder().round_trips(), 0);
        nothing_is_stored(db).await;
    })
    .await;
}

#[tokio::test]
async fn a_target_that_is_not_empty() {
    testkit::run(async |db| {
        let trades = histories::<u32>(db).page_size(2).build().unwrap();
        let documents: Vec<Document> = (1..5).map(good).collect();
        fill(db, &documents).await;
        trades.ensure_indexes().await.unwrap();
        let stranger = doc! { "_id": "7_1698335223", "customerId": 7, "count": 1, "history": [{ "n": 1 }] };
        let of_other_type = doc! { "_id": "1_1698335223", "customerId": "1", "count": 2, "history": [1, 2] };
        let same_key = doc! { "_id": "2_1698335222", "customerId": 2.0, "count": 1, "history": [{ "n": 1 }] };
        for (existing, allowed) in [
            (&stranger, false),
            (&of_other_type, true),
            (&same_key, true),
            (&same_key, false),
        ] {
            plain(db).delete_many(doc! {}).await.unwrap();
            plain(db).insert_one(existing).await.unwrap();
            let flat = flat(db);
            let migration = trades.migrate_from_flat(&flat);
            let error = if allowed {
                migration.allow_non_empty_target().await
            } else {
                migration.await
            }
            .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TargetNotEmpty, "{error:?}");
            assert_eq!(all(&plain(db)).await, std::slice::from_ref(existing));
            assert_eq!(migrations(db).await, []);
        }

        plain(db).delete_many(doc! {}).await.unwrap();
        plain(db).insert_one(&stranger).await.unwrap();
        let migrated = trades
            .migrate_from_flat(&flat(db))
            .allow_non_empty_target()
            .await
            .unwrap();
        assert_eq!(
            (migrated.keys, migrated.items, migrated.buckets),
            (4, 4, 4),
            "existing documents are not counted"
        );
        let mut expected = buckets::<u32>(&documents, "customerId", 2, false);
        expected.push(raw(&stranger));
        assert_eq!(stored(&plain(db)).await, expected);

        // Back, beside documents of other keys.
        let back = db.plain_collection::<Document>("back");
        for existing in [
            doc! { "_id": 1, "customerId": 4 },
            doc! { "_id": "2_1698335223_0", "customerId": 99 },
        ] {
            back.delete_many(doc! {}).await.unwrap();
            back.insert_one(&existing).await.unwrap();
            let error = trades.migrate_to_flat(&back).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TargetNotEmpty, "{error:?}");
            let error = trades
                .migrate_to_flat(&back)
                .allow_non_empty_target()
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TargetNotEmpty, "{error:?}");
            assert_eq!(all(&back).await, [existing]);
        }
        back.delete_many(doc! {}).await.unwrap();
        back.insert_one(doc! { "_id": 1, "customerId": 99 }).await.unwrap();
        assert_eq!(
            trades
                .migrate_to_flat(&back)
                .allow_non_empty_target()
                .await
                .unwrap()
                .items,
            5
        );
        assert_eq!(back.count_documents(doc! {}).await.unwrap(), 6);
    })
    .await;
}

#[tokio::test]
async fn a_target_with_another_collation() {
    testkit::run(async |db| {
        fill(db, &[good(1)]).await;
        let collation = mongodb::options::Collation::builder().locale("de").build();
        let database = db.plain_client().database(db.database().name());
        database.create_collection("trades").collation(collation).await.unwrap();
        let trades = histories::<u32>(db).build().unwrap();
        let error = trades.migrate_from_flat(&flat(db)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedCollation, "{error:?}");
        nothing_is_stored(db).await;
    })
    .await;
}

#[tokio::test]
async fn buckets_and_items_that_cannot_be_flat() {
    testkit::run(async |db| {
        let trades = histories::<u32>(db).build().unwrap();
        let bucket = |id: &str, key: Bson, count: i32, history: Bson| doc! { "_id": id, "customerId": key, "count": count, "history": history };
        let one = |item: Bson| bucket("1_1698335223", 1.into(), 1, vec![item].into());
        let of_item = |item: Document| one(item.into());
        let cases = [
            (one(5.into()), ErrorKind::Encode),
            (one(Bson::Null), ErrorKind::Encode),
            (of_item(doc! { "customerId": 2 }), ErrorKind::InvalidKey),
            (of_item(doc! { "_id": [1] }), ErrorKind::InvalidItemId),
            (bucket("2_1698335223", 1.into(), 0, Bson::Array(vec![])), ErrorKind::Corrupt),
            (bucket("12_1698335223", 1.into(), 0, Bson::Array(vec![])), ErrorKind::Corrupt),
            (bucket("1_1698335223", "1".into(), 0, Bson::Array(vec![])), ErrorKind::Corrupt),
            (bucket("1_1698335223", 1.into(), 2, vec![doc! {}].into()), ErrorKind::Corrupt),
            (bucket("1_1698335223", 1.into(), 0, "none".into()), ErrorKind::Corrupt),
            (doc! { "_id": 1, "customerId": 1, "count": 0, "history": [] }, ErrorKind::Corrupt),
        ];
        let sound = bucket("3_1698335223", 3.into(), 1, vec![doc! { "n": 1 }].into());
        for (bad, kind) in cases {
            plain(db).drop().await.unwrap();
            plain(db).insert_many([&sound, &bad]).await.unwrap();
            let error = trades.migrate_to_flat(&flat(db)).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{bad}: {error:?}");
            assert_eq!(error.document_id(), bad.get("_id"));
            assert_eq!(all(&flat(db)).await, []);
        }
        plain(db).drop().await.unwrap();
        let same_id = vec![doc! { "_id": 7, "n": 1 }, doc! { "_id": 7.0, "n": 2 }];
        plain(db).insert_one(bucket("1_1698335223", 1.into(), 2, same_id.into())).await.unwrap();
        let error = trades.migrate_to_flat(&flat(db)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidItemId, "{error:?}");
        assert_eq!(all(&flat(db)).await, []);
        assert_eq!(migrations(db).await, []);
    })
    .await;
}

/// The records of migrations in the catalog.
async fn migrations(db: &TestDatabase) -> Vec<Document> {
    let mut records = all(&db.plain_collection("mongo_patterns")).await;
    records.retain(|record| record.get_document("_id").unwrap().get_str("kind").unwrap() == "migration");
    records
}
