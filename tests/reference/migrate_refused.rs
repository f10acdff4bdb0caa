//! Migrations from references that are refused, and those that skip invalid documents.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit as testkit;
use mongodb::bson::doc;

use support::reference::migrate::*;
use support::reference::migrate_refused::*;
use support::reference::*;

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn an_invalid_document_is_named_and_nothing_is_written() {
    testkit::run(async |db| {
        let orders = fill(db, [doc! { "_id": 1, "customerId": 1 }]).await;
        let migration = || orders.migrate_from_references().from_field("customer", "customerId");
        for (bad, reason, kind) in invalid() {
            let field = ["customer", "products"][usize::from(bad.contains_key("products"))];
            let refused = refused(db, migration, bad.clone(), reason).await;
            assert_eq!(
                (refused.kind(), refused.field()),
                (kind, Some(field)),
                "{bad}: {refused}"
            );
        }
        assert_eq!(raw(db, "mongo_patterns").await.len(), 0);
        assert_eq!(stored(db).list_index_names().await.unwrap(), ["_id_"]);
    })
    .await;
}

/// A wrong name would leave the ids where they are, while other references are migrated.
#[tokio::test]
async fn a_field_that_no_document_has_is_refused() {
    testkit::run(async |db| {
        let orders = fill(db, [doc! { "_id": 1, "customerId": 1, "products": [1] }]).await;
        let wrong = || orders.migrate_from_references().from_field("customer", "customerid");
        for refused in [wrong().await.map(drop), wrong().plan().await.map(drop)] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert!(refused.to_string().contains("customerid"), "{refused}");
        }
        let right = || orders.migrate_from_references().from_field("customer", "customerId");
        assert_eq!(number_of(&right().await.unwrap()), 1);
        // It has been migrated.
        assert_eq!(number_of(&right().await.unwrap()), 0);
        assert_eq!(number_of(&wrong().await.unwrap()), 0);
        let empty = fill(db, []).await;
        let migration = || empty.migrate_from_references().from_field("customer", "customerId");
        assert_eq!(number_of(&migration().plan().await.unwrap().migrated), 0);
        let migrated = migration().await.unwrap();
        assert_eq!((number_of(&migrated), migrated.created_indexes.len()), (0, 3));
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: cargo xtask ci"]
async fn a_document_that_would_be_too_large_is_refused() {
    testkit::run(async |db| {
        // With the copy it exceeds the limit of 16 MiB by one byte, or not.
        for (bytes, fits) in [(16 * 1024 * 1024, true), (16 * 1024 * 1024 + 1, false)] {
            let name = "x".repeat(1_000_000);
            let customer = doc! { "_id": 3, "name": &name };
            let new = doc! { "_id": 1, "pad": "", "customer": { "_id": 3, "name": &name, "v": 0_i64 } };
            let pad = bytes - mongodb::bson::serialize_to_vec(&new).unwrap().len();
            let orders = fill(db, [doc! { "_id": 1, "pad": "p".repeat(pad), "customer": 3 }]).await;
            customers(db).insert_one(customer).await.unwrap();
            match orders.migrate_from_references().await {
                Ok(migrated) => assert!(fits && number_of(&migrated) == 1),
                Err(error) => {
                    assert!(!fits, "{error}");
                    assert_eq!(
                        (error.kind(), error.document_id()),
                        (ErrorKind::TooLarge, Some(&1.into()))
                    );
                    assert_eq!(raw(db, "mongo_patterns").await.len(), 0);
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn invalid_arguments_are_refused_and_nothing_is_sent() {
    testkit::run(async |db| {
        let orders = fill(db, [doc! { "_id": 1, "customer": 1 }]).await;
        db.recorder().clear();
        let from = || orders.migrate_from_references();
        for (reference, field, kind) in [
            ("customer", "_id", ErrorKind::Configuration),
            ("customer", "products", ErrorKind::InvalidArgument),
            ("customers", "customerId", ErrorKind::InvalidArgument),
        ] {
            let refused = from().from_field(reference, field).await.unwrap_err();
            assert_eq!(refused.kind(), kind, "{reference} {field}");
        }
        assert_eq!(names(db), "");
        let refused = from().filter(doc! { "$nosuch": 1 }).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        let before = raw(db, "orders").await;
        // Other settings are in the catalog.
        let other = bare(db.database()).reference_field("customer").copied_fields(["name"]);
        let other = other.build().unwrap();
        other.ensure_indexes().await.unwrap();
        assert_eq!(from().await.unwrap_err().kind(), ErrorKind::SettingsMismatch);
        assert_same(&raw(db, "orders").await, &before);
    })
    .await;
}
