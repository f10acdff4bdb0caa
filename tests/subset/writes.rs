//! Writes: the commands that are sent, and the calls that are refused.

use mongo_patterns::subset::{Subset, SubsetRepository};
use mongo_patterns::{ErrorKind, Result};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::subset::rated::{rated_builder, several_builder};
use support::common::{all, explain};
use support::subset::*;

pub(super) async fn fill(products: &Products, ids: std::ops::Range<i32>) {
    let children: Vec<Review> = ids.map(review).collect();
    products.insert_many(&children).await.unwrap();
}

pub(super) fn names(db: &TestDatabase) -> String {
    let names = db.recorder().names().join(" ");
    db.recorder().clear();
    names
}

#[tokio::test]
async fn the_first_write_checks_the_indexes() {
    testkit::run(async |db| {
        let repository = || builder::<Product, Review>(db.database()).build().unwrap();
        let products = repository();
        add_product(db, 1).await;
        let error = products.insert(&review(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
        assert!(all(&reviews(db)).await.is_empty());
        products.ensure_indexes().await.unwrap();
        db.recorder().clear();
        products.insert(&review(1)).await.unwrap();
        assert_eq!(names(db), "listIndexes update insert find update commitTransaction");
        products.clone().insert(&review(2)).await.unwrap();
        assert_eq!(names(db), "insert find update commitTransaction");

        // A later drop of an index causes an error at the child, or at the read of the first children.
        reviews(db).drop_index("product_id_1_review_id_1").await.unwrap();
        let error = products.delete(1, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexMissing, "{error:?}");
        products.ensure_indexes().await.unwrap();
        reviews(db)
            .drop_index("product_id_1_published_date_-1_review_id_-1")
            .await
            .unwrap();
        let error = products.insert(&review(3)).await.unwrap_err();
        assert_eq!((error.kind(), error.stored_count()), (ErrorKind::IndexMissing, None));
        assert_eq!(all(&reviews(db)).await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn the_documents_that_a_write_examines() {
    testkit::run(async |db| {
        let products = products(db).await;
        fill(&products, 0..100).await;
        add_product(db, 2).await;
        let others: Vec<Review> = (0..100).map(|id| review_of(2, id, id.into())).collect();
        products.insert_many(&others).await.unwrap();
        db.recorder().clear();
        let change = doc! { "$set": { "published_date": day(900) } };
        products.update(1, 50, change).await.unwrap();
        let commands = db.recorder().commands();
        let update = explain(db, &commands[0]).await;
        assert_eq!(
            (update.documents, update.index.as_str()),
            (1, "product_id_1_review_id_1")
        );
        let top = explain(db, &commands[1]).await;
        assert_eq!((top.documents, top.keys), (10, 10), "{top:?}");
        assert_eq!(embedded(db).await[0], 50);
    })
    .await;
}

#[tokio::test]
async fn a_refused_write_stores_nothing() {
    testkit::run(async |db| {
        use ErrorKind::{AlreadyExists, ChildNotFound, InvalidArgument, NotFound};
        let products = products(db).await;
        fill(&products, 0..3).await;
        let before = (all(&product(db)).await, all(&reviews(db)).await);
        let lost = review_of(2, 1, 1);
        let edit = || doc! { "$set": { "review_author": "Pablo" } };
        let list = Bson::Array(vec![1.into()]);
        let refused = [
            (products.insert(&lost).await.map(drop), NotFound),
            (products.replace(&lost).await.map(drop), NotFound),
            (products.update(2, 1, edit()).await.map(drop), NotFound),
            (products.delete(2, 1).await.map(drop), NotFound),
            (products.refresh(2).await.map(drop), NotFound),
            (products.insert_many(&[review(7), lost]).await.map(drop), NotFound),
            (products.replace(&review(9)).await.map(drop), ChildNotFound),
            (products.update(1, 9, edit()).await.map(drop), ChildNotFound),
            (products.delete(1, Bson::Null).await.map(drop), InvalidArgument),
            (products.get(list).await.map(drop), InvalidArgument),
        ];
        let check = |refused: Vec<(Result<()>, ErrorKind)>| {
            for (number, (refused, kind)) in refused.into_iter().enumerate() {
                let error = refused.unwrap_err();
                assert_eq!((error.kind(), error.stored_count()), (kind, None), "{number}: {error}");
                assert!(!error.to_string().contains("Kristina"), "{error}");
            }
        };
        check(refused.into());
        assert_eq!((all(&product(db)).await, all(&reviews(db)).await), before);

        // The parent of a child is immutable.
        add_product(db, 2).await;
        let several = [review(5), review(6), review(2), review(7)];
        check(vec![
            (products.replace(&review_of(2, 1, 1)).await.map(drop), ChildNotFound),
            (products.insert(&review(2)).await.map(drop), AlreadyExists),
            (products.insert_many(&several).await.map(drop), AlreadyExists),
        ]);
        assert_eq!(all(&reviews(db)).await, before.1);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
        assert!(products.insert_many(&[]).await.unwrap().children == 0);
    })
    .await;
}

#[tokio::test]
async fn a_builder_refuses_invalid_settings() {
    testkit::run(async |db| {
        let good = || builder::<Product, Review>(db.database());
        let of = |subset| builder_of::<Product, Review>(db.database(), subset);
        let by = |field: &str, order: &str| Subset::new(field).sort(doc! { order: 1 });
        let elsewhere = db.plain_client().database("other").collection::<Document>("two");
        let elsewhere = SubsetRepository::<Product, Review>::builder(db.collection::<Document>("one"), elsewhere);
        let further = |subset| several_builder(db.database()).total_field("count").subset(subset);
        let with_figure = |of: &str, field: &str| rated_builder(db.database()).max(of, field);
        let by_stars = || by("worst", "stars");
        further(by_stars()).build().unwrap();
        with_figure("rating", "best").build().unwrap();
        let subsets = [
            of(Subset::new("reviews")),
            of(newest().filter(doc! { "stars": 5 })),
            of(newest().sort(doc! { "product_id": 1 })),
            of(newest().sort(doc! { "review_id": 1, "x": 1 })),
            of(newest().sort(doc! {})),
            of(newest().embedded_fields(["$a"])),
            good().subset(newest()),
            good().version_field("reviews"),
            good().parent_field("review_id"),
            good().total_field("reviews"),
            good().total_field("reviews_version"),
            elsewhere.parent_field("p").child_id_field("c").subset(by("s", "o")),
        ];
        let mut refused: Vec<_> = subsets.map(|builder| builder.build().map(drop)).into();
        let taken = ["reviews", "reviews_version", "_id", "a.b"].into_iter();
        for name in taken.clone().chain(["count", "top_rated"]) {
            refused.push(further(by(name, "stars")).build().map(drop));
        }
        for name in taken.chain(["review_count", "stars"]) {
            refused.push(with_figure("rating", name).build().map(drop));
        }
        for of in ["product_id", "a.b"] {
            refused.push(with_figure(of, "best").build().map(drop));
        }
        let invalid = [
            Subset::new("worst"),
            by_stars().sort(doc! { "stars": 1, "product_id": 1 }),
            by_stars().sort(doc! { "a.b": 1 }),
            by_stars().size(0),
            by_stars().size(u32::MAX),
            by_stars().embedded_fields(["a.b"]),
            by_stars().filter(doc! { "$where": "true" }),
        ];
        refused.extend(invalid.map(|subset| further(subset).build().map(drop)));
        let directions: [Bson; 6] = [0.into(), 2.into(), true.into(), "1".into(), 0.5.into(), Bson::Null];
        let of_direction = |direction: Bson| of(Subset::new("reviews").sort(doc! { "stars": direction })).build();
        refused.extend(directions.map(|direction| of_direction(direction).map(drop)));
        for (number, refused) in refused.into_iter().enumerate() {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Configuration, "{number}");
        }
        for direction in [Bson::Int32(-1), Bson::Int64(-1), Bson::Double(-1.0)] {
            let index = of_direction(direction).unwrap().indexes()[0].indexes()[0].keys.clone();
            assert_eq!(index, doc! { "product_id": 1, "stars": -1, "review_id": -1 });
        }
        let by_id = of(newest().sort(doc! { "published_date": -1, "review_id": 1 }));
        let by_id = by_id.build().unwrap();
        assert_eq!(by_id.indexes()[0].indexes().len(), 2);
        assert_eq!((by_id.subset_size(), db.recorder().round_trips()), (10, 0));
    })
    .await;
}

#[tokio::test]
async fn a_field_of_the_order_that_is_removed_puts_the_child_last() {
    testkit::run(async |db| {
        let products = products(db).await;
        fill(&products, 0..11).await;
        for modified in [true, false] {
            let unset = doc! { "published_date": "", "no_such_field": "" };
            let update = products.update(1, 10, doc! { "$set": { "stars": 5 }, "$unset": unset });
            let updated = update.await.unwrap();
            assert!(!updated.in_subset, "null comes last where the newest are first");
            assert_eq!(updated.modified, modified);
        }
        let stored = reviews(db).find_one(doc! { "review_id": 10 }).await.unwrap().unwrap();
        assert_eq!(stored.get_i32("stars").unwrap(), 5);
        assert!(!stored.contains_key("published_date"));
        assert_eq!(embedded(db).await, (0..10).rev().collect::<Vec<_>>());
    })
    .await;
}
