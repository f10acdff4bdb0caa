//! Migrations, the catalog, unmanaged products and the follower with several subsets and figures.

use futures::TryStreamExt;
use mongo_patterns::subset::Subset;
use mongo_patterns::{ErrorKind, Result};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::subset::rated::*;
use support::common::all;
use support::subset::*;

const PARENTS: i32 = 12;
const NONE: [String; 0] = [];

/// Returns the reviews of all products, which have 0 to 11.
fn children() -> Vec<Document> {
    let ids = (1..=PARENTS).flat_map(|parent| (1..parent).map(move |id| (parent, id)));
    ids.map(|(parent, id)| reviewed(parent, id, i64::from(id * parent % 7), (parent + id) % 6))
        .collect()
}

/// Returns a review as its product embeds it.
fn embedded(review: &Document) -> Document {
    let mut review = review.clone();
    review.remove("product_id");
    review
}

fn unused(db: &TestDatabase) -> Any {
    full_builder(db.database()).build().unwrap()
}

async fn add_products(db: &TestDatabase) {
    for id in 1..=PARENTS {
        add_product(db, id).await;
    }
}

#[tokio::test]
async fn two_collections_get_all_subsets() {
    testkit::run(async |db| {
        add_products(db).await;
        reviews(db).insert_many(children()).await.unwrap();
        let products = unused(db);
        let migrated = products.migrate_existing().await.unwrap();
        assert_eq!(
            (migrated.documents, migrated.created_indexes.len()),
            (PARENTS as u64, 5)
        );
        assert_eq!(wrong_fields(db).await, NONE);
        assert_eq!(stale(&products).await, []);
        let before = all(&product(db)).await;
        products.migrate_existing().await.unwrap();
        assert_eq!(all(&product(db)).await, before, "a correct parent is not written");
    })
    .await;
}

#[tokio::test]
async fn embedded_children_are_migrated_to_all_subsets() {
    testkit::run(async |db| {
        let children = children();
        let with_reviews = (1..=PARENTS).map(|id| {
            let of_parent = children
                .iter()
                .filter(|child| child.get_i32("product_id").ok() == Some(id));
            let reviews: Vec<Document> = of_parent.map(embedded).collect();
            // A copy that was maintained by hand.
            let best: Vec<Document> = reviews.iter().take(1).cloned().collect();
            doc! { "_id": id, "name": "Super Widget", "reviews": reviews, "top_rated": best }
        });
        product(db).insert_many(with_reviews).await.unwrap();
        let products = unused(db);
        let migrated = products.migrate_from_embedded().chunk(20).await.unwrap();
        assert_eq!(migrated.children, children.len() as u64);
        products.refresh(1).await.unwrap();
        assert_eq!(wrong_fields(db).await, NONE);
        assert_eq!(stale(&products).await, []);
    })
    .await;
}

#[tokio::test]
async fn subsets_are_added_to_a_repository_and_removed() {
    testkit::run(async |db| {
        let one = builder_of::<Document, Document>(db.database(), newest().size(3));
        let old = ready(db, one).await;
        for id in 2..=PARENTS {
            add_product(db, id).await;
        }
        old.insert_many(&children()).await.unwrap();
        let new = unused(db);
        for refused in [new.ensure_indexes().await.map(drop), new.refresh_all().await.map(drop)] {
            let kind = refused.unwrap_err().kind();
            assert!(
                matches!(kind, ErrorKind::SettingsMismatch | ErrorKind::IndexMissing),
                "{kind:?}"
            );
        }
        assert_eq!(
            new.migrate_layout_from(&old).plan().await.unwrap().migrated.documents,
            PARENTS as u64
        );
        let migrated = new.migrate_layout_from(&old).await.unwrap();
        assert_eq!((migrated.created_indexes.len(), migrated.dropped_index), (3, None));
        assert_eq!(wrong_fields(db).await, NONE);
        new.insert(&reviewed(2, 50, 50, 5)).await.unwrap();
        assert_eq!(wrong_fields(db).await, NONE);

        // Another process with the old settings, and one with another filter.
        let other = builder_of(db.database(), newest().size(3))
            .subset(best().filter(doc! { "stars": { "$gte": 5 } }))
            .subset(unnoticed());
        let other: Any = with_figures(other).build().unwrap();
        for (error, shown) in [
            (old.ensure_indexes().await.unwrap_err(), "`total` of"),
            (other.ensure_indexes().await.unwrap_err(), r#"["stars", [["$gte", 5]]]"#),
        ] {
            assert_eq!(error.kind(), ErrorKind::SettingsMismatch);
            assert!(error.to_string().contains(shown), "{error}");
        }
        unused(db).ensure_indexes().await.unwrap();

        let migrated = old.migrate_layout_from(&new).await.unwrap();
        assert_eq!((migrated.created_indexes.len(), migrated.dropped_index), (0, None));
        old.ensure_indexes().await.unwrap();
    })
    .await;
}

/// A product that no repository has written can embed reviews in any of the arrays that are stored nowhere else.
#[tokio::test]
async fn no_subset_of_an_unmanaged_product_loses_its_reviews() {
    testkit::run(async |db| {
        let products = ready(db, full_builder(db.database())).await;
        let review = reviewed(2, 1, 1, 5);
        let unmanaged = doc! { "_id": 2, "name": "Super Widget", "unnoticed": [embedded(&review)] };
        product(db).insert_one(unmanaged.clone()).await.unwrap();
        let find = || async { product(db).find_one(doc! { "_id": 2 }).await.unwrap().unwrap() };
        let refused = |outcome: Result<()>| {
            let error = outcome.unwrap_err();
            assert_eq!((error.kind(), error.stored_count()), (ErrorKind::NotMigrated, None));
            assert_eq!(error.field(), Some("unnoticed"), "{error}");
        };
        refused(products.insert(&reviewed(2, 2, 2, 5)).await.map(drop));
        refused(products.delete(2, 1).await.map(drop));
        refused(products.refresh(2).await.map(drop));
        refused(products.refresh_all().await.map(drop));
        refused(products.delete_parent(2).await.map(drop));
        assert_eq!(find().await, unmanaged);
        assert_eq!(all(&reviews(db)).await, [] as [Document; 0]);

        // With the review stored, and the same one in two arrays.
        reviews(db).insert_one(review.clone()).await.unwrap();
        let twice = doc! { "$set": { "reviews": [embedded(&review)] } };
        product(db).update_one(doc! { "_id": 2 }, twice.clone()).await.unwrap();
        products.refresh_all().await.unwrap();
        assert_eq!(wrong_fields(db).await, NONE);
        product(db)
            .replace_one(doc! { "_id": 2 }, unmanaged.clone())
            .await
            .unwrap();
        product(db).update_one(doc! { "_id": 2 }, twice).await.unwrap();
        products.insert(&reviewed(2, 2, 2, 5)).await.unwrap();
        assert_eq!(wrong_fields(db).await, NONE);

        let leftover = doc! { "_id": 3, "name": "Super Widget", "top_rated": [{ "review_id": 9 }] };
        product(db).insert_one(leftover).await.unwrap();
        products.refresh(3).discard_embedded().await.unwrap();
        assert_eq!(wrong_fields(db).await, NONE);
    })
    .await;
}

/// A transaction writes children of several products. Then another program writes some.
#[tokio::test]
async fn an_insert_of_many_children_and_a_follower_keep_all_subsets() {
    testkit::run(async |db| {
        let products = ready(db, full_builder(db.database())).await;
        for id in 2..=PARENTS {
            add_product(db, id).await;
        }
        let inserted = products.insert_many(&children()).await.unwrap();
        assert_eq!(inserted.children, children().len() as u64);
        assert_eq!(wrong_fields(db).await, NONE);
        assert_eq!(stale(&products).await, [] as [Bson; 0]);

        let follow = || products.follow("reviews").enable_pre_images().run_until_current();
        follow().await.unwrap();
        let reviews = reviews(db);
        let more = (1..=PARENTS).map(|parent| reviewed(parent, 20, parent.into(), parent % 6));
        reviews.insert_many(more).await.unwrap();
        let three = doc! { "review_id": 3 };
        let hidden = doc! { "$set": { "stars": 9, "hidden": true } };
        reviews.update_many(three, hidden).await.unwrap();
        reviews.delete_many(doc! { "review_id": 5 }).await.unwrap();
        assert_ne!(wrong_fields(db).await, NONE);
        follow().await.unwrap();
        assert_eq!(wrong_fields(db).await, NONE);
    })
    .await;
}

/// A NaN does not equal itself, but a setting with one is the same setting.
#[tokio::test]
async fn a_filter_with_a_nan_is_the_same_setting_again() {
    testkit::run(async |db| {
        let repository = |filter: Document| {
            let rated = Subset::new("rated").sort(doc! { "stars": -1 }).filter(filter);
            builder::<Document, Document>(db.database())
                .subset(rated)
                .build()
                .unwrap()
        };
        for (filter, other) in [
            (
                doc! { "stars": { "$in": [1, f64::NAN] } },
                doc! { "stars": { "$in": [1] } },
            ),
            (
                doc! { "of": { "$eq": { "a": f64::NAN } } },
                doc! { "of": { "$eq": { "a": Bson::Null } } },
            ),
        ] {
            let database = db.plain_client().database(db.database().name());
            database.drop().await.unwrap();
            repository(filter.clone()).ensure_indexes().await.unwrap();
            add_product(db, 1).await;
            // Another process with the same settings.
            let products = repository(filter.clone());
            products.ensure_indexes().await.unwrap();
            products.insert(&reviewed(1, 1, 1, 5)).await.unwrap();
            assert_eq!(stale(&products).await, []);
            let repaired: Vec<_> = products.repair().stream().try_collect().await.unwrap();
            assert_eq!(repaired, [], "{filter}");
            products.refresh_all().await.unwrap();
            let refused = repository(other).ensure_indexes().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::SettingsMismatch, "{filter}: {refused}");
        }
    })
    .await;
}
