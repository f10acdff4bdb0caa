//! Subsets.

use mongo_patterns::{ErrorKind, Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::model::Calls;
use support::common::all;
use support::subset::{Products, add_product, products, review, review_of, reviews};

pub(super) struct Subsets(Products);

impl Calls for Subsets {
    const NAME: &'static str = "subset";

    async fn begin(db: &TestDatabase) -> Self {
        let products = products(db).await;
        for id in [2, 3] {
            add_product(db, id).await;
        }
        let first: Vec<_> = (0..20).map(review).collect();
        products.insert_many(&first).await.unwrap();
        products.insert(&review_of(2, 1, 1)).await.unwrap();
        Self(products)
    }

    fn repository(&self) -> &dyn Repository {
        &self.0
    }

    async fn all(&self, session: &mut ClientSession) {
        let products = &self.0;
        macro_rules! run {
            ($call:expr) => {
                $call.session(&mut *session).await
            };
        }
        run!(products.insert(&review(50))).unwrap();
        run!(products.insert(&review(-1))).unwrap();
        let several = [review(51), review(52)];
        run!(products.insert_many(&several)).unwrap();
        let set = doc! { "$set": { "review_author": "Hans" } };
        run!(products.update(1, 52, set)).unwrap();
        run!(products.replace(&review(18))).unwrap();
        assert!(run!(products.delete(1, 19)).unwrap().found);
        assert_eq!(run!(products.rebuild(1)).unwrap().embedded, 10);
        assert!(run!(products.delete_parent(2)).unwrap().found);
        assert!(run!(products.get(2)).unwrap().is_none());
        let shown = run!(products.get(1)).unwrap().unwrap().reviews;
        assert_eq!((shown[0].review_id, shown[0].review_author.as_str()), (52, "Hans"));
        assert!(run!(products.child(1, 50)).unwrap().is_some());
        let page = run!(products.children(1).limit(3)).unwrap();
        assert_eq!(page.children.len(), 3);
        // A refused call does not abort the transaction.
        let missing = run!(products.insert(&review_of(9, 1, 1))).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(!products.delete(1, 19).session(session).await.unwrap().found);
    }

    async fn read(&self, session: &mut ClientSession) {
        drop(self.0.get(3).session(session).await.unwrap());
    }

    async fn add(&self, session: &mut ClientSession, n: i32) -> Result<()> {
        let review = review_of(3, n, n.into());
        self.0.insert(&review).session(session).await.map(drop)
    }

    async fn added(&self, db: &TestDatabase) -> Vec<i64> {
        let stored = all(&reviews(db)).await.into_iter();
        let of_third = stored.filter(|review| review.get_i32("product_id").is_ok_and(|id| id == 3));
        of_third
            .map(|review| review.get_i32("review_id").unwrap().into())
            .collect()
    }
}
