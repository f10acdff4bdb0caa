//! Unmanaged products: with reviews that are stored nowhere else, or with subsets that were maintained by hand.

use futures::TryStreamExt;
use mongo_patterns::ErrorKind;
use mongo_patterns::subset::{Repaired, Unrepaired};
use mongo_patterns_testkit as testkit;
use mongodb::bson::{Document, doc};

use support::common::all;
use support::subset::migration::{embedded_review, of_product};
use support::subset::*;

/// Every call that would overwrite the array of a product that is not migrated is refused, with nothing stored.
#[tokio::test]
async fn no_call_loses_reviews_that_are_not_migrated() {
    testkit::run(async |db| {
        product(db).drop().await.unwrap();
        reviews(db).drop().await.unwrap();
        let products = builder::<Product, Review>(db.database()).build().unwrap();
        products.ensure_indexes().await.unwrap();
        let all_reviews: Vec<Document> = (0..30).map(|id| embedded_review(id, id.into())).collect();
        let parents = [
            doc! { "_id": 1, "name": "Super Widget", "reviews": &all_reviews },
            doc! { "_id": 2, "name": "Super Widget", "reviews": "none" },
            doc! { "_id": 3, "name": "Super Widget", "reviews": [{ "no": "id" }] },
            // The same id twice, of which the collection has one.
            doc! { "_id": 4, "name": "Super Widget", "reviews": [embedded_review(1, 1), embedded_review(1, 2)] },
        ];
        product(db).insert_many(&parents).await.unwrap();
        let there = [review_of(1, 3, 3), review_of(4, 1, 1)].map(|review| to_document(&review));
        reviews(db).insert_many(&there).await.unwrap();
        let before = (all(&product(db)).await, all(&reviews(db)).await);
        let mut session = db.client().start_session().await.unwrap();
        for id in 1..=4 {
            let new = review_of(id, 100, 100);
            let update = doc! { "$set": { "review_author": "x" } };
            session.start_transaction().await.unwrap();
            let in_transaction = products.insert(&new).session(&mut session).await.map(drop);
            session.abort_transaction().await.unwrap();
            let refused = [
                in_transaction,
                products.insert(&new).await.map(drop),
                products.insert_many(std::slice::from_ref(&new)).await.map(drop),
                products.update(id, 3, update).await.map(drop),
                products.replace(&review_of(id, 3, 9)).await.map(drop),
                products.delete(id, 3).await.map(drop),
                products.refresh(id).await.map(drop),
                products.delete_parent(id).await.map(drop),
                products.refresh_all().await.map(drop),
                products.migrate_existing().await.map(drop),
            ];
            for (number, refused) in refused.into_iter().enumerate() {
                let error = refused.unwrap_err();
                let found = (error.kind(), error.stored_count());
                assert_eq!(found, (ErrorKind::NotMigrated, None), "{number} of {id}: {error}");
            }
        }
        for dry_run in [true, false] {
            let repair = products.repair();
            let repair = if dry_run { repair.dry_run() } else { repair };
            let repaired: Vec<Repaired> = repair.stream().try_collect().await.unwrap();
            assert_eq!(repaired.len(), 4);
            let is_left = |repaired: &Repaired| repaired.unrepaired == Some(Unrepaired::NotMigrated);
            assert!(repaired.iter().all(is_left));
        }
        assert_eq!((all(&product(db)).await, all(&reviews(db)).await), before);

        // A product whose embedded reviews are discarded.
        products.refresh(3).discard_embedded().await.unwrap();
        products.insert(&review_of(3, 100, 100)).await.unwrap();
        products.refresh_all().discard_embedded().await.unwrap();
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);
    })
    .await;
}

/// A subset that was maintained by hand is accepted if all its reviews are in the collection.
#[tokio::test]
async fn the_first_write_manages_a_subset_that_was_maintained_by_hand() {
    testkit::run(async |db| {
        let products = products(db).await;
        let children: Vec<Document> = (0..15)
            .map(|id| of_product(1, &embedded_review(id, id.into())))
            .collect();
        reviews(db).insert_many(children).await.unwrap();
        let by_hand: Vec<Document> = (3..8).map(|id| embedded_review(id, id.into())).collect();
        let by_hand = doc! { "$set": { "reviews": by_hand }, "$unset": { "reviews_version": "" } };
        product(db).update_one(doc! {}, by_hand.clone()).await.unwrap();
        products.delete(1, 5).await.unwrap();
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);

        // The same product, with a leftover.
        product(db).update_one(doc! {}, by_hand.clone()).await.unwrap();
        let error = products.insert(&review(50)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotMigrated);
        assert_eq!(products.refresh(1).discard_embedded().await.unwrap().embedded, 10);
        products.insert(&review(50)).await.unwrap();
        assert_eq!(wrong(&product(db), &reviews(db), 10).await, []);

        let now = doc! { "$unset": { "reviews_version": "" } };
        product(db).update_one(doc! {}, now).await.unwrap();
        assert_eq!(products.delete_parent(1).await.unwrap().documents, 16);
    })
    .await;
}
