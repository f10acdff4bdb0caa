//! Migrations, the catalog and the follower with figures.

use mongo_patterns::ErrorKind;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::common::support::all;
use crate::subset::computed::stale;
use crate::subset::computed_support::*;
use crate::subset::support::*;

const PARENTS: i32 = 12;

/// Returns the reviews of all products, which have 0 to 11.
fn children() -> Vec<Document> {
    let ids = (1..=PARENTS).flat_map(|parent| (1..parent).map(move |id| (parent, id)));
    ids.map(|(parent, id)| rated(parent, id, (parent + id) % 5 + 1))
        .collect()
}

async fn parents(db: &TestDatabase) {
    for id in 1..=PARENTS {
        add_product(db, id).await;
    }
}

fn unused(db: &TestDatabase) -> Rated {
    rated_builder(db.database()).build().unwrap()
}

#[tokio::test]
async fn two_collections_get_their_computed_fields() {
    testkit::run(async |db| {
        parents(db).await;
        reviews(db).insert_many(children()).await.unwrap();
        let products = unused(db);
        let migrated = products.migrate_existing().await.unwrap();
        assert_eq!(migrated.parents, PARENTS as u64);
        assert!(migrated.created_indexes.contains(&"product_id_1_rating_1".to_owned()));
        assert_eq!(miscounted(db).await, []);
        assert_eq!(stale(&products).await, []);
        let before = all(&product(db)).await;
        products.migrate_existing().await.unwrap();
        assert_eq!(all(&product(db)).await, before, "a correct parent is not written");
    })
    .await;
}

#[tokio::test]
async fn embedded_children_are_counted_when_they_are_migrated() {
    testkit::run(async |db| {
        let children = children();
        let embedded = (1..=PARENTS).map(|id| {
            let of_parent = children
                .iter()
                .filter(|child| child.get_i32("product_id").unwrap() == id);
            let reviews: Vec<Document> = of_parent
                .map(|child| {
                    let mut child = child.clone();
                    child.remove("product_id");
                    child
                })
                .collect();
            doc! { "_id": id, "reviews": reviews }
        });
        product(db).insert_many(embedded).await.unwrap();
        let products = unused(db);
        let moved = products.migrate_from_embedded().chunk(20).await.unwrap();
        assert_eq!(moved.children, children.len() as u64);
        products.rebuild(1).await.unwrap();
        assert_eq!(miscounted(db).await, []);
        assert_eq!(stale(&products).await, []);
    })
    .await;
}

#[tokio::test]
async fn an_embedded_array_cannot_be_counted() {
    testkit::run(async |db| {
        let review = doc! { "review_id": 1, "rating": [5], "published_date": day(1) };
        let parent = doc! { "_id": 1, "reviews": [review] };
        product(db).insert_one(parent.clone()).await.unwrap();
        let error = unused(db).migrate_from_embedded().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(all(&product(db)).await, [parent]);
        assert_eq!(all(&reviews(db)).await, [] as [Document; 0]);
    })
    .await;
}

#[tokio::test]
async fn computed_fields_are_added_to_a_repository_and_removed() {
    testkit::run(async |db| {
        let plain = builder_of::<Document, Document>(db.database(), newest().size(3)).total_field("review_count");
        let old = ready(db, plain).await;
        for id in 2..=PARENTS {
            add_product(db, id).await;
        }
        old.insert_many(&children()).await.unwrap();
        let new = unused(db);
        for refused in [new.ensure_indexes().await.map(drop), new.rebuild_all().await.map(drop)] {
            let kind = refused.unwrap_err().kind();
            assert!(
                matches!(kind, ErrorKind::SettingsMismatch | ErrorKind::IndexMissing),
                "{kind:?}"
            );
        }
        let planned = new.migrate_layout_from(&old).plan().await.unwrap();
        assert_eq!(planned.migrated.parents, PARENTS as u64);
        let migrated = new.migrate_layout_from(&old).await.unwrap();
        assert_eq!(migrated.created_indexes, ["product_id_1_rating_1"]);
        assert_eq!((migrated.parents, migrated.dropped_index), (PARENTS as u64, None));
        assert_eq!(miscounted(db).await, []);
        new.insert(&rated(2, 50, 5)).await.unwrap();
        assert_eq!(miscounted(db).await, []);

        // Another process with the old settings.
        let error = old.ensure_indexes().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SettingsMismatch);
        assert!(error.to_string().contains("`sum` of"), "{error}");

        let migrated = old.migrate_layout_from(&new).await.unwrap();
        assert_eq!((migrated.created_indexes.len(), migrated.dropped_index), (0, None));
        old.ensure_indexes().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_follower_keeps_computed_fields() {
    testkit::run(async |db| {
        let products = rated_products(db).await;
        for id in 2..=PARENTS {
            add_product(db, id).await;
        }
        let follow = || products.follow("reviews").enable_pre_images().run_until_current();
        follow().await.unwrap();
        let reviews = reviews(db);
        reviews.insert_many(children()).await.unwrap();
        reviews
            .update_many(doc! { "review_id": 3 }, doc! { "$set": { "rating": 9 } })
            .await
            .unwrap();
        reviews.delete_many(doc! { "review_id": 5 }).await.unwrap();
        let other_parent = doc! { "$set": { "product_id": 1 } };
        reviews
            .update_one(doc! { "product_id": 9, "review_id": 7 }, other_parent)
            .await
            .unwrap();
        assert_ne!(miscounted(db).await, [] as [Bson; 0]);
        follow().await.unwrap();
        assert_eq!(miscounted(db).await, []);
    })
    .await;
}
