//! Parents that are migrated from embedded children, and programs that still embed some.

use futures::TryStreamExt;
use mongo_patterns::embedded::EmbeddedRepository;
use mongo_patterns::subset::{Problem, Repaired, Unrepaired};
use mongo_patterns::{Error, ErrorKind};
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::bson::{Bson, Document, doc};

use crate::subset::migration::findings;
use support::common::{all, assert_refused};
use support::subset::migration::{embedded_review, of_product};
use support::subset::*;

fn embedding(db: &TestDatabase) -> EmbeddedRepository<Document, Document> {
    let products = EmbeddedRepository::builder(db.collection::<Document>("product"));
    let products = products.children_field("reviews").child_id_field("review_id");
    products.max_children(1000).build().unwrap()
}

/// Stores a product with this number of embedded reviews, and migrates it.
async fn migrated(db: &TestDatabase, reviews: i32) -> Products {
    let reviews: Vec<Document> = (0..reviews).map(|id| embedded_review(id, id.into())).collect();
    product(db)
        .insert_one(doc! { "_id": 1, "name": "Super Widget", "reviews": reviews })
        .await
        .unwrap();
    let products: Products = builder(db.database()).build().unwrap();
    products.migrate_from_embedded().await.unwrap();
    products
}

/// A second migration removes nothing: neither from a parent whose subset is full, nor from one with few children.
#[tokio::test]
async fn a_child_that_is_embedded_after_the_migration_is_found_and_kept() {
    for (reviews_before, embedded) in [(40, 11), (3, 4)] {
        testkit::run(async |db| {
            let products = migrated(db, reviews_before).await;
            // As a program without this crate does.
            let late = embedded_review(99, 99);
            let push = doc! { "$push": { "reviews": &late } };
            product(db).update_one(doc! { "_id": 1 }, push).await.unwrap();
            let before = all(&product(db)).await;

            let found = findings(&products).await;
            let problems: Vec<_> = found.iter().map(|finding| &finding.problem).collect();
            assert_eq!(problems, [&Problem::NotStored { children: 1 }]);
            let repaired: Vec<Repaired> = products.repair().stream().try_collect().await.unwrap();
            assert_eq!(repaired[0].unrepaired, Some(Unrepaired::NotStored));
            let again = [
                products
                    .migrate_from_embedded()
                    .allow_non_empty_target()
                    .await
                    .map(drop),
                products.migrate_existing().await.map(drop),
            ];
            for again in again {
                let error = assert_refused(again, ErrorKind::CountMismatch);
                assert_eq!(error.document_id(), Some(&Bson::Int32(1)));
                for part in ["insert_many(..)", "refresh(..)"] {
                    assert!(error.to_string().contains(part), "{error}");
                }
            }
            assert_eq!(all(&product(db)).await, before);
            assert_eq!(before[0].get_array("reviews").unwrap().len(), embedded);

            // As the texts say.
            let late: Review = mongodb::bson::deserialize_from_document(of_product(1, &late)).unwrap();
            products.insert_many(&[late]).await.unwrap();
            products.migrate_from_embedded().allow_non_empty_target().await.unwrap();
            assert_eq!(findings(&products).await, []);
            assert!(products.child(1, 99).await.unwrap().is_some());
        })
        .await;
    }
}

/// Or discards it, if it was deleted from the collection.
#[tokio::test]
async fn a_child_that_was_deleted_from_the_collection_leaves_the_subset_by_a_rebuild() {
    testkit::run(async |db| {
        let products = migrated(db, 15).await;
        reviews(db).delete_one(doc! { "review_id": 14 }).await.unwrap();
        let repaired: Vec<Repaired> = products.repair().stream().try_collect().await.unwrap();
        assert_eq!(repaired[0].unrepaired, Some(Unrepaired::NotStored));
        assert_eq!(products.refresh(1).await.unwrap().embedded, 10);
        assert_eq!(findings(&products).await, []);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
    })
    .await;
}

/// Every call that reads or writes a parent with its embedded children, beside a parent that is migrated, and one whose
/// migration has begun.
#[tokio::test]
async fn calls_for_embedded_children_refuse_migrated_parents() {
    testkit::run(async |db| {
        migrated(db, 40).await;
        let reviews: Vec<Document> = (0..20).map(|id| embedded_review(id, 1)).collect();
        let begun = doc! { "_id": 2, "reviews": reviews, "reviews_version": null };
        product(db).insert_one(begun).await.unwrap();
        let before = all(&product(db)).await;
        let products = embedding(db);
        let new = embedded_review(100, 1);
        let old = embedded_review(39, 1);
        let set = || doc! { "$set": { "n": 1 } };
        for id in [1, 2] {
            let ids: Vec<i32> = (0..20).collect();
            let mut session = db.client().start_session().await.unwrap();
            session.start_transaction().await.unwrap();
            let refused: Vec<Result<(), Error>> = vec![
                products.add_child(id, &new).session(&mut session).await,
                products.add_child(id, &new).await,
                products.upsert_child(id, &new).await.map(drop),
                products.replace_child(id, &old).await.map(drop),
                products.update_child(id, 39, set()).await.map(drop),
                products
                    .update_grandchild(id, 39, "list", ("id", 1), set())
                    .await
                    .map(drop),
                products.remove_child(id, 39).await.map(drop),
                products.remove_child(id, 100).await.map(drop),
                products.reorder_children(id, ids).await,
                products.get(id).await.map(drop),
                products.find(doc! { "_id": id }).await.map(drop),
                products.child(id, 39).await.map(drop),
                products.child(id, 1).await.map(drop),
            ];
            session.abort_transaction().await.unwrap();
            for (number, refused) in refused.into_iter().enumerate() {
                let error = refused.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NewerVersion, "{number} of {id}: {error:?}");
                assert_eq!(error.document_id(), Some(&id.into()), "{number}");
                assert_eq!(error.field(), Some("reviews_version"), "{number}");
            }
        }
        let marked = doc! { "_id": 3, "reviews": [], "reviews_version": null };
        assert_refused(products.insert(&marked).await, ErrorKind::InvalidArgument);
        assert_refused(products.insert_many(&[marked]).await, ErrorKind::InvalidArgument);
        assert_eq!(all(&product(db)).await, before);
    })
    .await;
}

/// So that no program embeds their first child after the migration has passed them.
#[tokio::test]
async fn parents_without_children_are_migrated_too() {
    testkit::run(async |db| {
        let with_reviews = doc! { "_id": 3, "name": "c", "reviews": [embedded_review(1, 1), embedded_review(2, 2)] };
        let without = [
            doc! { "_id": 1, "name": "a" },
            doc! { "_id": 2, "name": "b", "reviews": [] },
        ];
        product(db).insert_many(without).await.unwrap();
        product(db).insert_one(with_reviews).await.unwrap();
        // As a repository has stored it.
        let managed = doc! { "_id": 4, "name": "d", "reviews": [], "reviews_version": 7_i64 };
        product(db).insert_one(&managed).await.unwrap();
        let products: Products = builder(db.database()).build().unwrap();
        let plan = products.migrate_from_embedded().plan().await.unwrap();
        assert_eq!((plan.migrated.documents, plan.migrated.children), (3, 2));
        let migrated = products.migrate_from_embedded().await.unwrap();
        assert_eq!((migrated.documents, migrated.children), (3, 2));

        let embedding = embedding(db);
        for id in 1..=3 {
            let error = embedding.add_child(id, &embedded_review(9, 9)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NewerVersion, "{id}: {error:?}");
            products.insert(&review_of(id, 10, 10)).await.unwrap();
        }
        assert_eq!(findings(&products).await, []);
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
        assert_eq!(product(db).find_one(doc! { "_id": 4 }).await.unwrap(), Some(managed));
        assert_eq!(
            products
                .migrate_from_embedded()
                .allow_non_empty_target()
                .await
                .unwrap()
                .documents,
            0
        );
    })
    .await;
}

/// Repositories of embedded children know a migrated parent by this field.
#[tokio::test]
async fn a_migration_needs_the_usual_name_of_the_version() {
    testkit::run(async |db| {
        let before = doc! { "_id": 1, "reviews": [embedded_review(1, 1)] };
        product(db).insert_one(&before).await.unwrap();
        let products: Products = builder(db.database()).version_field("writes").build().unwrap();
        let error = assert_refused(products.migrate_from_embedded().await, ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("`reviews_version`"), "{error}");
        assert_refused(
            products.migrate_from_embedded().plan().await,
            ErrorKind::InvalidArgument,
        );
        assert_eq!(all(&product(db)).await, [before]);
        assert_eq!(all(&reviews(db)).await, []);
    })
    .await;
}

/// A parent that a subset has left with its field is not taken for one without children.
#[tokio::test]
async fn references_are_not_embedded_in_a_parent_of_a_subset() {
    testkit::run(async |db| {
        migrated(db, 0).await;
        let products: Products = builder(db.database()).build().unwrap();
        products.insert(&review(7)).await.unwrap();
        let unset = doc! { "$unset": { "reviews": 1 } };
        product(db).update_one(doc! { "_id": 1 }, unset).await.unwrap();
        let before = all(&product(db)).await;
        let embedded = embedding(db);
        let migrate = async || embedded.migrate_from_references(&reviews(db), "product_id").await;
        let error = assert_refused(migrate().await, ErrorKind::TargetNotEmpty);
        assert!(error.to_string().contains("`reviews_version`"), "{error}");
        assert_eq!(all(&product(db)).await, before);
        let unset = doc! { "$unset": { "reviews_version": 1 } };
        product(db).update_one(doc! { "_id": 1 }, unset).await.unwrap();
        assert_eq!(migrate().await.unwrap().children, 1);
        assert!(embedded.child(1, 7).await.unwrap().is_some());
    })
    .await;
}
