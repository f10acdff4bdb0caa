//! Sources and targets that a migration refuses, with nothing written.

use mongo_patterns::{ErrorKind, Remedy};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::{Binary, Bson, DateTime, Document, doc, spec::BinarySubtype};
use mongodb::options::{CollectionOptions, WriteConcern};

use crate::bucket::migration::*;
use support::bucket::migration::*;
use support::bucket::*;
use support::common::*;

fn good(id: i32) -> Document {
    doc! { "_id": id, "customerId": id, "date": at(SECOND), "tradeId": id }
}

/// Migrates this document among valid ones. The error must have the number of such documents and name one.
async fn refused(db: &TestDatabase, trades: &Histories<u32>, bad: Document, kind: ErrorKind, field: &str) {
    let mut other = bad.clone();
    other.insert("_id", 8);
    flat(db).insert_many([&bad, &other]).await.unwrap();
    let error = trades.migrate_from_flat(&flat(db)).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{bad}: {error:?}");
    assert!(error.to_string().contains("2 documents"), "{error}");
    assert_eq!(error.document_id(), Some(&Bson::Int32(9)));
    assert_eq!(error.field(), Some(field));
    assert!(error.is_invalid_input() && error.operation() == Some("migrate_from_flat"));
    nothing_is_stored(db).await;
    flat(db).delete_many(doc! { "_id": { "$gte": 8 } }).await.unwrap();
}

/// Drivers store the bytes of a UUID in different orders under the legacy subtype, so no order is guessed.
#[tokio::test]
async fn keys_of_other_forms_are_named() {
    use ErrorKind::{Configuration, InvalidKey};
    testkit::run(async |db| {
        let (trades, flat) = (histories::<u32>(db).build().unwrap(), flat(db));
        let of_key = |key: Bson| doc! { "_id": 9, "customerId": key, "date": at(SECOND) };
        fill(db, &[good(1), of_key(doc! { "site": "a", "sensor": 1 }.into())]).await;
        for (migration, kind) in [
            (trades.migrate_from_flat(&flat), InvalidKey),
            (trades.migrate_from_flat(&flat).key_field("meta.sensor"), Configuration),
        ] {
            let error = migration.await.unwrap_err();
            assert!(error.kind() == kind && error.to_string().contains("view"), "{error}");
        }
        for (subtype, is_named) in [(BinarySubtype::UuidOld, true), (BinarySubtype::Generic, false)] {
            let bytes = vec![0; 16];
            fill(db, &[good(1), of_key(Binary { subtype, bytes }.into())]).await;
            let error = trades.migrate_from_flat(&flat).await.unwrap_err();
            let kind_and_id = (error.kind(), error.document_id());
            assert_eq!(kind_and_id, (InvalidKey, Some(&9.into())));
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
        // Which values are keys is compared with the client's codec in `keys::the_server_encodes_keys_as_the_client_does`.
        let keys: [Bson; 3] = ["9".into(), (1_i64 << 32).into(), Bson::Null];
        let late = DateTime::from_millis(10_000_000_000_000);
        let dates: [Bson; 6] = [
            "2023".into(),
            SECOND.into(),
            Bson::Null,
            at(-1).into(),
            late.into(),
            vec![at(SECOND)].into(),
        ];
        let item_ids: [Bson; 3] = [1.5.into(), Bson::Null, vec![1].into()];
        fill(db, &[good(1), good(2), good(3)]).await;
        for (field, kind, values) in [
            ("customerId", ErrorKind::InvalidKey, &keys[..]),
            ("date", ErrorKind::InvalidTime, &dates[..]),
            ("tradeId", ErrorKind::InvalidItemId, &item_ids[..]),
        ] {
            let mut bad = good(9);
            bad.remove(field);
            refused(db, &trades, bad.clone(), kind, field).await;
            for value in values {
                bad.insert(field, value.clone());
                refused(db, &trades, bad.clone(), kind, field).await;
            }
        }
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
        let text = "x".repeat(6_000_000);
        let large =
            |id: i32| doc! { "_id": id, "customerId": 1 + id % 2, "date": at(SECOND + i64::from(id)), "text": &text };
        let documents: Vec<Document> = (0..6).map(large).collect();
        fill(db, &documents).await;
        let trades = histories::<u32>(db).page_size(3).build().unwrap();
        let error = trades.migrate_from_flat(&flat(db)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error:?}");
        assert!(error.to_string().contains("2 pages"), "{error}");
        nothing_is_stored(db).await;

        let smaller = histories::<u32>(db).page_size(2).build().unwrap();
        let migrated = smaller.migrate_from_flat(&flat(db)).await.unwrap();
        assert_eq!((migrated.items, migrated.documents), (6, 4));
    })
    .await;
}

#[tokio::test]
async fn invalid_settings() {
    use ErrorKind::{Configuration, InvalidArgument};
    testkit::run(async |db| {
        fill(db, &[good(1)]).await;
        let flat = flat(db);
        let trades = histories::<u32>(db).build().unwrap();
        let timeless = untimed::<u32, Document>(db).build().unwrap();
        let by_customer = histories::<u32>(db).item_id_field("customerId2").build().unwrap();
        let elsewhere = db.plain_client().database("elsewhere").collection::<Document>("flat");
        let unconfirmed = CollectionOptions::builder()
            .write_concern(WriteConcern::nodes(0))
            .build();
        let database = db.plain_client().database(db.database().name());
        let unconfirmed = database.collection_with_options::<Document>("other", unconfirmed);
        db.recorder().clear();
        let by_key = by_customer.migrate_from_flat(&flat).key_field("customerId2");
        for (outcome, kind) in [
            (timeless.migrate_from_flat(&flat).await, Configuration),
            (by_key.await, Configuration),
            (trades.migrate_from_flat(&flat).key_field("a.b").await, Configuration),
            (trades.migrate_to_flat(&flat).key_field("_id").await, Configuration),
            (trades.migrate_from_flat(&elsewhere).await, InvalidArgument),
            (trades.migrate_to_flat(&elsewhere).await, InvalidArgument),
            (trades.migrate_from_flat(&plain(db)).await, InvalidArgument),
            (trades.migrate_to_flat(&unconfirmed).await, InvalidArgument),
        ] {
            assert_eq!(outcome.unwrap_err().kind(), kind);
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
        let flat = flat(db);
        trades.ensure_indexes().await.unwrap();
        let stranger = doc! { "_id": "7_1698335223", "customerId": 7, "count": 1, "history": [{ "n": 1 }] };
        let of_other_type = doc! { "_id": "1_1698335223", "customerId": "1", "count": 2, "history": [1, 2] };
        let same_key = doc! { "_id": "2_1698335222", "customerId": 2.0, "count": 1, "history": [{ "n": 1 }] };
        let stored_alone = async |collection: &Collection<Document>, existing: &Document| {
            collection.delete_many(doc! {}).await.unwrap();
            collection.insert_one(existing).await.unwrap();
        };
        for (existing, allowed) in [
            (&stranger, false),
            (&of_other_type, true),
            (&same_key, true),
            (&same_key, false),
        ] {
            stored_alone(&plain(db), existing).await;
            let migration = trades.migrate_from_flat(&flat);
            let migrated = match allowed {
                true => migration.allow_non_empty_target().await,
                false => migration.await,
            };
            let refused = assert_refused(migrated, ErrorKind::TargetNotEmpty);
            let names_option = refused.remedy() == Some(Remedy::AllowNonEmptyTarget);
            assert!(allowed || names_option, "{existing}: {refused:?}");
            assert_eq!(all(&plain(db)).await, std::slice::from_ref(existing));
            assert_eq!(migrations(db).await, []);
        }

        stored_alone(&plain(db), &stranger).await;
        let migrated = trades.migrate_from_flat(&flat).allow_non_empty_target().await.unwrap();
        let numbers = (migrated.keys, migrated.items, migrated.documents);
        assert_eq!(numbers, (4, 4, 4), "existing documents are not counted");
        let mut expected = buckets::<u32>(&documents, "customerId", 2, false);
        expected.push(raw(&stranger));
        assert_eq!(stored(&plain(db)).await, expected);

        // Back, beside documents of other keys.
        let back = db.plain_collection::<Document>("back");
        for existing in [
            doc! { "_id": 1, "customerId": 4 },
            doc! { "_id": "2_1698335223_0", "customerId": 99 },
        ] {
            stored_alone(&back, &existing).await;
            let migration = trades.migrate_to_flat(&back);
            for migration in [migration, trades.migrate_to_flat(&back).allow_non_empty_target()] {
                assert_refused(migration.await, ErrorKind::TargetNotEmpty);
            }
            assert_eq!(all(&back).await, [existing]);
        }
        stored_alone(&back, &doc! { "_id": 1, "customerId": 99 }).await;
        let migrated = trades.migrate_to_flat(&back).allow_non_empty_target().await.unwrap();
        assert_eq!(migrated.items, 5);
        assert_eq!(back.count_documents(doc! {}).await.unwrap(), 6);
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
        assert_refused(trades.migrate_to_flat(&flat(db)).await, ErrorKind::InvalidItemId);
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
