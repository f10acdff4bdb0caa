//! Several subsets of one parent: the commands of every write, and their repair.

use futures::TryStreamExt;
use mongo_patterns::subset::{Finding, Problem, Repaired, Subset};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Bson, Document, doc};

use crate::subset::rated::*;
use crate::subset::writes::names;
use support::common::{all, explain};
use support::subset::*;

#[tokio::test]
async fn every_write_keeps_all_subsets_by_as_many_round_trips_as_one() {
    testkit::run(async |db| {
        let products = several_products(db).await;
        let check = async |expected: &str| {
            let expected = format!("{expected} commitTransaction");
            assert_eq!(names(db), expected);
            assert_eq!(wrong_subsets(db).await, [] as [String; 0], "{expected}");
            assert_eq!(stale(&products).await, []);
            db.recorder().clear();
        };
        let children: Vec<Document> = (100..110).map(|id| reviewed(1, id, id.into(), 3)).collect();
        products.insert_many(&children).await.unwrap();
        check("update insert aggregate update").await;

        let newest = products.insert(&reviewed(1, 200, 200, 1)).await.unwrap();
        assert!(newest.in_subset);
        check("insert aggregate update").await;

        let best = products.insert(&reviewed(1, 1, 1, 5)).await.unwrap();
        assert!(best.in_subset);
        check("insert aggregate update").await;

        let outside = products.insert(&reviewed(1, 2, 2, 1)).await.unwrap();
        assert!(!outside.in_subset);
        check("insert aggregate update").await;

        for (id, change, in_subset) in [
            // Into a filter, by its order, and out of it.
            (100, doc! { "$inc": { "stars": 1 } }, true),
            (100, doc! { "$inc": { "stars": -1 } }, false),
            // Out of another filter, and back.
            (109, doc! { "$set": { "hidden": true } }, true),
            (107, doc! { "$set": { "hidden": true } }, false),
            (107, doc! { "$unset": { "hidden": "" } }, true),
            // By the order of the third subset.
            (108, doc! { "$inc": { "votes": 1 } }, true),
            (106, doc! { "$inc": { "votes": 1 } }, false),
            (2, doc! { "$inc": { "votes": -1 } }, true),
            (2, doc! { "$set": { "text": "Nice." } }, true),
        ] {
            let updated = products.update(1, id, change.clone()).await.unwrap();
            assert_eq!(
                (updated.modified, updated.in_subset),
                (true, in_subset),
                "{id} {change}"
            );
            check("update aggregate update").await;
        }
        assert!(products.replace(&reviewed(1, 101, 101, 4)).await.unwrap().in_subset);
        check("update aggregate update").await;
        for id in [1, 101, 200, 200, 104] {
            products.delete(1, id).await.unwrap();
            check("delete aggregate update").await;
        }
        assert_eq!(products.refresh(1).await.unwrap().embedded, 3 + 4);
        assert_eq!(names(db), "find aggregate update");

        let mut session = db.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let best = products
            .insert(&reviewed(1, 3, 3, 5))
            .session(&mut session)
            .await
            .unwrap();
        assert!(best.in_subset);
        session.commit_transaction().await.unwrap();
        assert_eq!(wrong_subsets(db).await, [] as [String; 0]);
        let deleted = products.delete_parent(1).await.unwrap();
        assert!(deleted.found && all(&reviews(db)).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn the_stored_form_of_several_subsets() {
    testkit::run(async |db| {
        let products = several_products(db).await;
        for (id, stars) in [(1, 5), (2, 3), (3, 4), (4, 4)] {
            products.insert(&reviewed(1, id, id.into(), stars)).await.unwrap();
        }
        let found = stored_product(db).await;
        let whole = |id: i32, stars: i32| {
            let mut review = reviewed(1, id, id.into(), stars);
            review.remove("product_id");
            review
        };
        assert_eq!(
            found,
            doc! {
                "_id": 1,
                "name": "Super Widget",
                "reviews": [whole(4, 4), whole(3, 4), whole(2, 3)],
                "top_rated": [{ "review_id": 1, "stars": 5 }, { "review_id": 4, "stars": 4 }],
                "unnoticed": [whole(4, 4), whole(3, 4), whole(2, 3), whole(1, 5)],
                "reviews_version": found.get("reviews_version").unwrap(),
            }
        );
        assert_eq!(products.get(1).await.unwrap(), Some(found));
    })
    .await;
}

#[tokio::test]
async fn a_stale_subset_is_named_and_repaired() {
    testkit::run(async |db| {
        let products = several_products(db).await;
        let children: Vec<Document> = (0..10).map(|id| reviewed(1, id, id.into(), id % 6)).collect();
        products.insert_many(&children).await.unwrap();
        let named = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect::<Vec<String>>();
        for (bad, fields) in [
            (doc! { "$pop": { "reviews": 1 } }, named(&["reviews"])),
            (doc! { "$pop": { "top_rated": -1 } }, named(&["top_rated"])),
            (doc! { "$set": { "top_rated.0.stars": 1 } }, named(&["top_rated"])),
            (doc! { "$unset": { "unnoticed": 1 } }, named(&["unnoticed"])),
            (doc! { "$set": { "unnoticed": 5 } }, named(&["unnoticed"])),
            (
                doc! { "$set": { "reviews": [], "unnoticed": [] } },
                named(&["reviews", "unnoticed"]),
            ),
        ] {
            change_product(db, bad.clone()).await;
            let findings: Vec<Finding> = products.verify().stream().try_collect().await.unwrap();
            let [finding] = findings.as_slice() else {
                panic!("{findings:?}")
            };
            assert_eq!((finding.problem, finding.fields.as_slice()), (Problem::Stale, &*fields));
            let repaired: Vec<Repaired> = products.repair().stream().try_collect().await.unwrap();
            assert_eq!((repaired.len(), repaired[0].unrepaired), (1, None));
            assert_eq!(wrong_subsets(db).await, [] as [String; 0], "{bad}");

            change_product(db, bad.clone()).await;
            assert_eq!(products.refresh_all().await.unwrap().rebuilt_individually, 0);
            assert_eq!(wrong_subsets(db).await, [] as [String; 0], "{bad}");
            let correct = all(&product(db)).await;
            products.refresh_all().await.unwrap();
            assert_eq!(all(&product(db)).await, correct, "a correct parent is not written");

            change_product(db, bad.clone()).await;
            products.insert(&reviewed(1, 100, -1, 1)).await.unwrap();
            assert_eq!(
                wrong_subsets(db).await,
                [] as [String; 0],
                "the next write corrects it: {bad}"
            );
            products.delete(1, 100).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn each_subset_is_read_by_its_index() {
    testkit::run(async |db| {
        let products = several_products(db).await;
        let children: Vec<Document> = (0..300).map(|id| reviewed(1, id, id.into(), id % 6)).collect();
        products.insert_many(&children).await.unwrap();
        db.recorder().clear();
        products.update(1, 3, doc! { "$inc": { "stars": 1 } }).await.unwrap();
        let commands = db.recorder().commands();
        let aggregate = commands.iter().find(|command| command.name == "aggregate").unwrap();
        let stages = aggregate.command.get_array("pipeline").unwrap().iter();
        let lookups = stages.filter_map(|stage| stage.as_document()?.get_document("$lookup").ok());
        let lookups: Vec<&Document> = lookups.collect();
        assert_eq!(lookups.len(), 2);
        for (lookup, (index, most)) in lookups.into_iter().zip([
            ("product_id_1_stars_-1_review_id_-1", 2),
            ("product_id_1_votes_1_published_date_-1_review_id_-1", 4),
        ]) {
            let pipeline = lookup.get_array("pipeline").unwrap().clone();
            let mut command = aggregate.clone();
            command.command = doc! { "aggregate": "review", "pipeline": pipeline, "cursor": {} };
            let examined = explain(db, &command).await;
            assert_eq!(examined.index, index);
            assert!(examined.documents <= most && examined.keys <= most + 1, "{examined:?}");
        }
    })
    .await;
}

/// Values of children and of filters that would be an operator, a variable, a path or an expression.
#[tokio::test]
async fn no_value_is_interpreted() {
    testkit::run(async |db| {
        for hostile in [
            Bson::from("$stars"),
            "$$ROOT".into(),
            "".into(),
            "a.b".into(),
            doc! { "a": "$stars" }.into(),
        ] {
            let of_value = Subset::new("of_value")
                .sort(doc! { "published_date": 1 })
                .filter(doc! { "$or": [{ "kind": &hostile }, { "$nor": [{ "kind": { "$ne": &hostile } }] }] });
            let builder = builder(db.database()).subset(of_value);
            let products: Any = ready(db, builder).await;
            let kinds = [hostile.clone(), 5.into(), hostile.clone(), Bson::Null];
            for (id, kind) in (1..).zip(kinds) {
                let mut review = reviewed(1, id, id.into(), 1);
                review.insert("kind", kind);
                products.insert(&review).await.unwrap();
            }
            let found = stored_product(db).await;
            let ids = found.get_array("of_value").unwrap().iter();
            let ids: Vec<i32> = ids
                .map(|review| review.as_document().unwrap().get_i32("review_id").unwrap())
                .collect();
            assert_eq!(ids, [1, 3], "{hostile}");
            assert_eq!(stale(&products).await, []);
        }
    })
    .await;
}

/// An index that has all embedded fields has them in another order than a document, and `null` for a missing one.
#[tokio::test]
async fn embedded_fields_that_an_index_has_are_read_from_the_document() {
    testkit::run(async |db| {
        let dates = newest().embedded_fields(["published_date"]).size(3);
        let products: Any = ready(db, builder_of(db.database(), dates)).await;
        for id in 1..=3 {
            products.insert(&reviewed(1, id, id.into(), 1)).await.unwrap();
        }
        let new = doc! { "review_id": 4, "product_id": 1 };
        products.insert(&new).await.unwrap();
        products.delete(1, 3).await.unwrap();
        let found = stored_product(db).await;
        let embedded = |id: i32| doc! { "review_id": id, "published_date": day(id.into()) };
        let expected = vec![embedded(2), embedded(1), doc! { "review_id": 4 }];
        let expected: Vec<Bson> = expected.into_iter().map(Bson::from).collect();
        assert_eq!(
            format!("{:?}", found.get_array("reviews").unwrap()),
            format!("{expected:?}")
        );
        assert_eq!(stale(&products).await, []);
    })
    .await;
}
