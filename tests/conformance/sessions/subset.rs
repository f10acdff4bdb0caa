//! Subsets.

use futures::future::LocalBoxFuture;
use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::model::Calls;
use support::common::all;
use support::subset::{Products, add_product, products, review, review_of, reviews};

struct Subsets(Products);

pub(super) fn begin(db: &TestDatabase) -> LocalBoxFuture<'_, Box<dyn Calls>> {
    Box::pin(async move {
        let products = products(db).await;
        for id in [2, 3] {
            add_product(db, id).await;
        }
        let first: Vec<_> = (0..20).map(review).collect();
        products.insert_many(&first).await.unwrap();
        products.insert(&review_of(2, 1, 1)).await.unwrap();
        Box::new(Subsets(products)) as Box<dyn Calls>
    })
}

impl Calls for Subsets {
    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    fn all<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        let products = &self.0;
        Box::pin(async move {
            products.insert(&review(50)).session(&mut *session).await.unwrap();
            products.insert(&review(-1)).session(&mut *session).await.unwrap();
            let several = [review(51), review(52)];
            products.insert_many(&several).session(&mut *session).await.unwrap();
            let set = doc! { "$set": { "review_author": "Hans" } };
            products.update(1, 52, set).session(&mut *session).await.unwrap();
            products.replace(&review(18)).session(&mut *session).await.unwrap();
            assert!(products.delete(1, 19).session(&mut *session).await.unwrap().found);
            assert_eq!(products.rebuild(1).session(&mut *session).await.unwrap().embedded, 10);
            assert!(products.delete_parent(2).session(&mut *session).await.unwrap().found);
            assert!(products.get(2).session(&mut *session).await.unwrap().is_none());
            let shown = products.get(1).session(&mut *session).await.unwrap().unwrap().reviews;
            assert_eq!((shown[0].review_id, shown[0].review_author.as_str()), (52, "Hans"));
            assert!(products.child(1, 50).session(&mut *session).await.unwrap().is_some());
            let page = products.children(1).limit(3).session(&mut *session).await.unwrap();
            assert_eq!(page.children.len(), 3);
            // A refused call does not abort the transaction.
            let missing = products
                .insert(&review_of(9, 1, 1))
                .session(&mut *session)
                .await
                .unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
            assert!(!products.delete(1, 19).session(session).await.unwrap().found);
        })
    }

    fn read<'a>(&'a self, session: &'a mut ClientSession) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { drop(self.0.get(3).session(session).await.unwrap()) })
    }

    fn add<'a>(&'a self, session: &'a mut ClientSession, n: i32) -> LocalBoxFuture<'a, Result<()>> {
        let review = review_of(3, n, n.into());
        Box::pin(async move { self.0.insert(&review).session(session).await.map(drop) })
    }

    fn added<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, Vec<i64>> {
        Box::pin(async move {
            let stored = all(&reviews(db)).await.into_iter();
            let of_third = stored.filter(|review| review.get_i32("product_id").is_ok_and(|id| id == 3));
            let mut numbers: Vec<i64> = of_third
                .map(|review| review.get_i32("review_id").unwrap().into())
                .collect();
            numbers.sort_unstable();
            numbers
        })
    }
}
