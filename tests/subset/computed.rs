//! Figures: the commands of every write, and their repair.

use futures::TryStreamExt;
use mongo_patterns::subset::{Repaired, SubsetRepositoryBuilder};
use mongo_patterns_testkit::{self as testkit, RecordedCommand};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::UpdateModifications;

use crate::subset::rated::*;
use crate::subset::writes::names;
use support::common::explain;
use support::subset::*;

#[tokio::test]
async fn every_write_keeps_the_computed_fields() {
    testkit::run(async |db| {
        let products = rated_products(db).await;
        let check = async |expected: &str| {
            let expected = format!("{expected} commitTransaction");
            assert_eq!(names(db), expected);
            assert_eq!(miscounted(db).await, [] as [Bson; 0], "{expected}");
            assert_eq!(stale(&products).await, []);
            db.recorder().clear();
        };
        let children: Vec<Document> = (0..10).map(|id| rated(1, id, id % 5 + 1)).collect();
        products.insert_many(&children).await.unwrap();
        check("update insert aggregate update").await;
        for (review, in_subset) in [(rated(1, 50, 9), true), (rated(1, -1, Bson::Null), false)] {
            assert_eq!(products.insert(&review).await.unwrap().in_subset, in_subset);
            check("update insert aggregate update").await;
        }
        let add = doc! { "$set": { "rating": { "$add": ["$rating", 1] } } };
        for (update, modified) in [
            (rate(7).into(), true),
            (rate(7).into(), false),
            (doc! { "$inc": { "rating": 1 } }.into(), true),
            (UpdateModifications::Pipeline(vec![add]), true),
        ] {
            let updated = products.update(1, 0, update).await.unwrap();
            assert_eq!((updated.modified, updated.in_subset), (modified, false));
            check("update findAndModify aggregate update").await;
        }
        let mut dollar = rated(1, 50, 3);
        dollar.insert("$set", doc! { "rating": 8 });
        for review in [rated(1, 50, 2), rated(1, 50, 2), dollar] {
            let replaced = products.replace(&review).await.unwrap();
            assert!(replaced.in_subset && (replaced.modified || !review.contains_key("$set")));
            check("update findAndModify aggregate update").await;
        }
        // The only greatest value, the others, and a child that does not exist.
        for (id, found) in [(0, true), (50, true), (50, false), (-1, true)] {
            assert_eq!(products.delete(1, id).await.unwrap().found, found);
            check("update findAndModify aggregate update").await;
        }
        // Missing fields are those of no children.
        add_product(db, 2).await;
        assert_eq!(stale(&products).await, []);
        for id in 1..10 {
            products.delete(1, id).await.unwrap();
        }
        let none = doc! {
            "review_count": 0_i64, "rating_sum": 0, "stars": [], "lowest": null, "highest": null,
        };
        assert_eq!(figures(db).await, none);
        assert!(products.delete_parent(1).await.unwrap().found);
    })
    .await;
}

/// A field without a minimum and a maximum needs no aggregation in an insert.
#[tokio::test]
async fn a_transaction_only_adds_to_sums_and_counts() {
    testkit::run(async |db| {
        let sums = builder::<Document, Document>(db.database()).sum("rating", "rating_sum");
        let products = ready(db, sums).await;
        products.insert(&rated(1, 1, 4)).await.unwrap();
        assert_eq!(names(db), "update insert find update commitTransaction");
        products.delete(1, 1).await.unwrap();
        assert_eq!(names(db), "update findAndModify find update commitTransaction");
        // The total counts a changed child as one.
        let total = builder::<Document, Document>(db.database()).total_field("review_count");
        let products = ready(db, total).await;
        products.insert(&rated(1, 1, 4)).await.unwrap();
        assert_eq!(names(db), "update insert find update commitTransaction");
        products.replace(&rated(1, 1, 5)).await.unwrap();
        assert_eq!(names(db), "update update find update commitTransaction");
        products.delete(1, 1).await.unwrap();
        assert_eq!(names(db), "update delete find update commitTransaction");
        let extremes = builder::<Document, Document>(db.database()).min("rating", "lowest");
        let products = ready(db, extremes).await;
        products.insert(&rated(1, 1, 4)).await.unwrap();
        products.update(1, 1, rate(3)).await.unwrap();
        products.delete(1, 1).await.unwrap();
        let [insert, update, delete] =
            ["insert", "update", "delete"].map(|write| format!("update {write} aggregate update commitTransaction"));
        assert_eq!(names(db), format!("{insert} {update} {delete}"));
    })
    .await;
}

/// A batch that is as large as the result leaves the cursor open, and the driver would read it once more.
#[tokio::test]
async fn values_are_read_in_one_round_trip_for_any_number_of_fields() {
    testkit::run(async |db| {
        type Builder = SubsetRepositoryBuilder<Document, Document>;
        let fields: [fn(Builder) -> Builder; 5] = [
            |builder| builder.sum("rating", "rating_sum"),
            |builder| builder.max("rating", "highest"),
            |builder| builder.count_by("rating", "stars"),
            |builder| builder.sum("rating", "rating_sum").min("published_date", "oldest"),
            |builder| builder.sum("rating", "rating_sum").total_field("review_count"),
        ];
        for (number, with_fields) in fields.into_iter().enumerate() {
            let products = ready(db, with_fields(builder_of(db.database(), newest().size(3)))).await;
            for id in 0..5 {
                products.insert(&rated(1, id, id)).await.unwrap();
            }
            products.update(1, 3, rate(9)).await.unwrap();
            products.replace(&rated(1, 3, 2)).await.unwrap();
            products.delete(1, 4).await.unwrap();
            assert!(!names(db).contains("getMore"), "{number}: {}", names(db));
            db.recorder().clear();
            products.refresh(1).await.unwrap();
            assert_eq!(names(db), "find find aggregate update", "{number}");
            let mut session = db.client().start_session().await.unwrap();
            session.start_transaction().await.unwrap();
            db.recorder().clear();
            products.refresh(1).session(&mut session).await.unwrap();
            assert!(!names(db).contains("getMore"), "{number}: {}", names(db));
            session.abort_transaction().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn computed_fields_are_read_by_indexes_only() {
    testkit::run(async |db| {
        let products = rated_products(db).await;
        let children: Vec<Document> = (0..100).map(|id| rated(1, id, id % 5 + 1)).collect();
        products.insert_many(&children).await.unwrap();
        db.recorder().clear();
        products.update(1, 3, rate(2)).await.unwrap();
        let commands = db.recorder().commands();
        let aggregate = commands.iter().find(|command| command.name == "aggregate").unwrap();
        for pipeline in lookups(aggregate) {
            let mut command = aggregate.clone();
            let essence = doc! { "aggregate": "review", "pipeline": pipeline, "cursor": {} };
            command.command = essence;
            let examined = explain(db, &command).await;
            assert!(examined.documents <= 1 && examined.keys <= 2, "{examined:?}");
        }
        db.recorder().clear();
        products.refresh(1).await.unwrap();
        let commands = db.recorder().commands();
        let aggregate = commands.iter().find(|command| command.name == "aggregate").unwrap();
        let examined = explain(db, aggregate).await;
        assert_eq!(
            (examined.documents, examined.index.as_str()),
            (0, "product_id_1_rating_1")
        );
        assert!((100..=101).contains(&examined.keys), "{examined:?}");
    })
    .await;
}

/// Returns the pipelines of the values and of the changed child.
fn lookups(aggregate: &RecordedCommand) -> Vec<Vec<Bson>> {
    let stages = aggregate.command.get_array("pipeline").unwrap().iter();
    let lookups = stages.filter_map(|stage| stage.as_document()?.get_document("$lookup").ok());
    let lookups: Vec<Vec<Bson>> = lookups
        .map(|lookup| lookup.get_array("pipeline").unwrap().clone())
        .collect();
    assert_eq!(lookups.len(), 3);
    lookups
}

#[tokio::test]
async fn wrong_computed_fields_are_found_and_repaired() {
    testkit::run(async |db| {
        let set = |field: &str, value: Bson| doc! { "$set": { field: value } };
        let products = rated_products(db).await;
        let children: Vec<Document> = (0..10).map(|id| rated(1, id, id % 5 + 1)).collect();
        products.insert_many(&children).await.unwrap();
        for (bad, is_changed) in [
            (set("rating_sum", 31.into()), true),
            (set("rating_sum", Bson::Double(30.01)), true),
            (set("rating_sum", Bson::Double(f64::NAN)), false),
            (set("rating_sum", "thirty".into()), false),
            (doc! { "$unset": { "rating_sum": 1 } }, false),
            (set("stars", Bson::Array(Vec::new())), true),
            (set("stars", 5.into()), false),
            (set("stars.0.count", 3.into()), true),
            (doc! { "$unset": { "stars": 1 } }, false),
            (set("lowest", 0.into()), false),
            (set("highest", Bson::Null), false),
            (doc! { "$unset": { "highest": 1 } }, false),
            (set("review_count", 9.into()), true),
            (set("review_count", "ten".into()), false),
            (doc! { "$unset": { "review_count": 1 } }, false),
        ] {
            change_product(db, bad.clone()).await;
            assert_eq!(stale(&products).await, [Bson::Int32(1)], "{bad}");
            let repaired: Vec<Repaired> = products.repair().stream().try_collect().await.unwrap();
            assert_eq!(repaired.len(), 1);
            assert_eq!(miscounted(db).await, [], "{bad}");

            change_product(db, bad.clone()).await;
            products.refresh(1).await.unwrap();
            assert_eq!(miscounted(db).await, [], "{bad}");

            change_product(db, bad.clone()).await;
            assert_eq!(products.refresh_all().await.unwrap().rebuilt_individually, 0);
            assert_eq!(miscounted(db).await, [], "{bad}");

            // A transaction changes a plausible value, and computes any other.
            change_product(db, bad.clone()).await;
            products.insert(&rated(1, -1, 5)).await.unwrap();
            products.delete(1, -1).await.unwrap();
            assert_eq!(stale(&products).await.is_empty(), !is_changed, "{bad}");
            products.refresh(1).await.unwrap();
        }
        // A transaction that finds no value computes it.
        change_product(db, doc! { "$unset": { "stars": 1 } }).await;
        db.recorder().clear();
        products.insert(&rated(1, 10, 5)).await.unwrap();
        let expected = "update insert aggregate update aggregate update commitTransaction";
        assert_eq!(names(db), expected);
        assert_eq!(miscounted(db).await, []);
        products.delete(1, 10).await.unwrap();
        // A number of another type is not wrong.
        for (field, same) in [
            ("rating_sum", Bson::Int64(30)),
            ("rating_sum", Bson::Double(30.0)),
            ("review_count", Bson::Int32(10)),
            ("review_count", Bson::Double(10.0)),
        ] {
            change_product(db, set(field, same)).await;
            assert_eq!(stale(&products).await, []);
        }
    })
    .await;
}

#[tokio::test]
async fn computed_fields_in_a_callers_transaction_are_atomic_with_it() {
    testkit::run(async |db| {
        let products = rated_products(db).await;
        products.insert(&rated(1, 1, 1)).await.unwrap();
        let before = figures(db).await;
        let mut session = db.client().start_session().await.unwrap();
        for commit in [false, true] {
            session.start_transaction().await.unwrap();
            let new = [rated(1, 2, 3), rated(1, 3, 4)];
            products.insert_many(&new).session(&mut session).await.unwrap();
            products.update(1, 2, rate(5)).session(&mut session).await.unwrap();
            products.delete(1, 1).session(&mut session).await.unwrap();
            products.delete(1, 1).session(&mut session).await.unwrap();
            if commit {
                products.refresh(1).session(&mut session).await.unwrap();
                session.commit_transaction().await.unwrap();
            } else {
                session.abort_transaction().await.unwrap();
                assert_eq!(figures(db).await, before);
            }
            assert_eq!(miscounted(db).await, []);
        }
    })
    .await;
}

#[tokio::test]
async fn the_total_is_counted_by_the_index_only() {
    testkit::run(async |db| {
        let products: Products = ready(db, builder(db.database()).total_field("review_count")).await;
        let children: Vec<Review> = (0..100).map(review).collect();
        products.insert_many(&children).await.unwrap();
        products.refresh(1).await.unwrap();
        let mut commands = db.recorder().commands();
        commands.pop();
        assert_eq!(commands.last().unwrap().name, "aggregate");
        let count = commands.pop().unwrap();
        let examined = explain(db, &count).await;
        assert_eq!(examined.documents, 0, "{examined:?}");
        assert!((100..=101).contains(&examined.keys), "{examined:?}");
    })
    .await;
}
