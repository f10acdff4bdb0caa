//! Ids and values of any type, unique indexes of the application, and the builder.

use futures::TryStreamExt;
use mongo_patterns::intervals::{Begun, Problem, Repaired, Unrepaired};
use mongo_patterns::{Error, ErrorKind, Repository};
use mongo_patterns_testkit as testkit;
use mongodb::IndexModel;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::IndexOptions;

use support::common::{all, until};
use support::intervals::*;

#[track_caller]
fn refused(case: &str, result: Result<Begun, Error>) {
    let error = result.expect_err(case);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{case}: {error}");
}

#[tokio::test]
async fn equal_numbers_are_one_id_and_invalid_input_has_no_effect() {
    testkit::run(async |db| {
        let prices = prices(db).await;
        prices.insert(&price(7, 1)).await.unwrap();
        // Equal numbers are one id.
        let exists = prices.insert(&price(7.0, 1)).await.unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
        prices.update(7_i64, to(9)).await.unwrap();
        assert_eq!(of_item(db, 7).await.len(), 2);

        let before = all(&stored(db)).await;
        for update in [
            to_field("validFrom"),
            to_field("validTo.x"),
            to_field("isValid"),
            to_field("item"),
            to_field("_id"),
            to_field("a.$"),
            doc! { "price": 1 },
            doc! { "$rename": { "price": "item" } },
            doc! { "$inc": { "item2": "x" } },
        ] {
            refused(&update.to_string(), prices.update(7, update).await);
        }
        for pipeline in [
            vec![doc! { "$set": { "validTo": 1 } }],
            vec![doc! { "$replaceWith": {} }],
        ] {
            refused(&format!("{pipeline:?}"), prices.update(7, pipeline).await);
        }
        for invalid in [price(Bson::Null, 1), price(vec![1], 1), doc! { "price": 1 }] {
            refused(&invalid.to_string(), prices.insert(&invalid).await);
        }
        refused("another id", prices.replace(7, &price(8, 1)).await);
        assert_eq!(all(&stored(db)).await, before);
        // Equal to the server, and not to Rust.
        prices.insert(&price(f64::NAN, 1)).await.unwrap();
        prices.replace(f64::NAN, &price(f64::NAN, 2)).await.unwrap();
        let double = vec![doc! { "$set": { "double": { "$multiply": ["$price", 2] } } }];
        prices.update(7, double).await.unwrap();
        let now = prices.get(7).await.unwrap().unwrap().document;
        assert_eq!(now.get_i32("double").unwrap(), 18);
    })
    .await;
}

fn to_field(field: &str) -> Document {
    doc! { "$set": { field: 1 } }
}

/// A document that was read has the fields of its interval, and can be passed on.
#[tokio::test]
async fn the_interval_in_a_document_of_the_caller_has_no_effect() {
    testkit::run(async |db| {
        let prices = prices(db).await;
        let mut first = price("pants", 5);
        first.extend(doc! { "_id": 7, "validFrom": at(1), "validTo": at(2), "isValid": false });
        prices.insert(&first).await.unwrap();
        assert!(prices.get("pants").await.unwrap().unwrap().valid_from > at(1000));
        prices.replace("pants", &first).await.unwrap();
        assert_eq!(judge(db, "pants").await, [5, 5]);
        prices.end("pants").await.unwrap();
        // Its `_id` is that of an earlier interval.
        assert_eq!(prices.insert(&first).await.unwrap_err().kind(), ErrorKind::DuplicateKey);
        first.insert("_id", ObjectId::new());
        prices.insert(&first).await.unwrap();
        assert_eq!(findings(&prices).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_unique_index_of_the_application_refuses_a_change_with_no_effect() {
    testkit::run(async |db| {
        // A sharded collection has only unique indexes that start with its shard key.
        let prices = builder(db.database()).build().unwrap();
        prices.ensure_indexes().await.unwrap();
        prices.insert(&price("pants", 5)).await.unwrap();
        let keys = doc! { "sku": 1 };
        let unique = |partial: Option<Document>| {
            let options = IndexOptions::builder()
                .unique(true)
                .partial_filter_expression(partial)
                .build();
            IndexModel::builder().keys(keys.clone()).options(options).build()
        };
        prices.update("pants", doc! { "$set": { "sku": 1 } }).await.unwrap();
        stored(db).create_index(unique(None)).await.unwrap();
        prices.insert(&doc! { "item": "hat", "sku": 2 }).await.unwrap();
        let before = all(&stored(db)).await;
        // The copy repeats the values of the document.
        let error = prices.update("pants", to(7)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateKey);
        let error = prices.insert(&doc! { "item": "shirt", "sku": 2 }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateKey);
        assert_eq!(all(&stored(db)).await, before);
        stored(db).drop_index("sku_1").await.unwrap();
        let of_valid = unique(Some(doc! { "isValid": true }));
        stored(db).create_index(of_valid).await.unwrap();
        prices.update("pants", to(7)).await.unwrap();
        let error = prices.update("pants", doc! { "$set": { "sku": 2 } }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateKey);
        assert_eq!(judge(db, "pants").await, [5, 5, 7]);
    })
    .await;
}

#[tokio::test]
async fn a_builder_refuses_names_that_are_equal_or_of_the_server() {
    testkit::run(async |db| {
        let manual = || builder(db.database());
        let builders = [
            Prices::builder(db.collection::<Document>("prices")),
            manual().id_field("_id"),
            manual().valid_to_field("validFrom"),
            manual().valid_field("item"),
        ];
        for builder in builders {
            let shown = format!("{builder:?}");
            assert_eq!(builder.build().unwrap_err().kind(), ErrorKind::Configuration, "{shown}");
        }
        assert_eq!(db.recorder().round_trips(), 0);
    })
    .await;
}

/// A unique index of the application has no entry of a scheduled price, until it has the mark.
#[tokio::test]
async fn a_mark_that_a_unique_index_refuses_is_reported_and_others_are_repaired() {
    testkit::run(async |db| {
        let prices = prices(db).await;
        let options = IndexOptions::builder()
            .unique(true)
            .partial_filter_expression(doc! { "isValid": true });
        let index = IndexModel::builder().keys(doc! { "price": 1 }).options(options.build());
        stored(db).create_index(index.build()).await.unwrap();
        for (item, number) in [("hat", 1), ("pants", 2), ("shirt", 3)] {
            prices.insert(&price(item, number)).await.unwrap();
        }
        let start = at(DateTime::now().timestamp_millis() + 500);
        for (item, number) in [("pants", 1), ("shirt", 4)] {
            prices.update(item, to(number)).from(start).await.unwrap();
        }
        let begins = async || price_of(&prices.get("pants").await.unwrap().unwrap()) == 1;
        until("the start of the scheduled prices", begins).await;
        let refused = prices.update("pants", to(9)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DuplicateKey);

        let repaired: Vec<Repaired> = prices.repair().stream().try_collect().await.unwrap();
        let reason = |item: &str| {
            let of_item = |one: &&Repaired| one.findings[0].related_id == Some(item.into());
            repaired.iter().find(of_item).unwrap().unrepaired
        };
        assert_eq!(repaired.len(), 2);
        assert_eq!(
            (reason("pants"), reason("shirt")),
            (Some(Unrepaired::UniqueIndex), None)
        );
        assert_eq!(problems(&prices).await, [Problem::OutdatedMark; 2]);
        // The other id has another price then.
        prices.update("hat", to(5)).await.unwrap();
        prices.repair().stream().try_collect::<Vec<_>>().await.unwrap();
        assert_eq!(findings(&prices).await, []);
    })
    .await;
}
