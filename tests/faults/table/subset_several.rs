//! Several subsets of one parent: the same products and reviews, of which a product also shows the oldest one.

use mongo_patterns::subset::{Consistency, Direction, Subset, SubsetRepositoryBuilder};
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Atomic, Prefix, Steps};
use super::operation::{Operation, text};
use super::subset::{EXISTS, Shop};
use crate::subset::support::{Product, Products, Review, day, review_of};

const EVENTUAL: &str = "eventual, with two subsets";
const TRANSACTIONAL: &str = "in a transaction, with two subsets";

/// Repositories of one process.
pub(super) struct Several {
    pub(super) eventual: Products,
    pub(super) transactional: Products,
}

impl Several {
    pub(super) fn of(builder: impl Fn() -> SubsetRepositoryBuilder<Product, Review>) -> Self {
        let with = |consistency| {
            let oldest = Subset::new("oldest").order_by("published_date", Direction::Ascending);
            let oldest = oldest.size(1).filter(doc! { "review_id": { "$gte": 0 } });
            builder().consistency(consistency).add_subset(oldest).build().unwrap()
        };
        Self {
            eventual: with(Consistency::Eventual),
            transactional: with(Consistency::Transactional),
        }
    }
}

/// Returns whether a product has a second subset.
pub(super) fn has_oldest(product: &Document) -> bool {
    product.contains_key("oldest")
}

/// Returns whether the second subset of a product is that of its reviews.
pub(super) fn is_oldest_correct(product: &Document, reviews: &[Document]) -> bool {
    let id = product.get("_id");
    let of_product = reviews.iter().filter(|review| review.get("product_id") == id);
    let oldest = of_product.min_by_key(|review| {
        let date = *review.get_datetime("published_date").unwrap();
        (date, review.get_i32("review_id").unwrap())
    });
    let oldest = oldest.map(|review| {
        let mut review = review.clone();
        review.remove("_id");
        review.remove("product_id");
        Bson::Document(review)
    });
    let stored = product.get_array("oldest").into_iter().flatten();
    stored.eq(&oldest)
}

/// Fills the second subset of all products.
fn fill(m: &Shop) -> futures::future::LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let several = &m.several.eventual;
        several.ensure_indexes().replace_settings().await.unwrap();
        several.rebuild_all().await.unwrap();
    })
}

/// Removes the second subset of a product.
fn damage(m: &Shop) -> futures::future::LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        fill(m).await;
        let wrong = doc! { "$set": { "oldest": [] } };
        m.products.update_one(doc! { "_id": 1 }, wrong).await.unwrap();
    })
}

pub(super) fn operations() -> Vec<Operation<Shop>> {
    vec![
        Operation::<Shop>::new(Prefix, "SubsetRepository::insert", EVENTUAL, |m| {
            Box::pin(async move { text(m.several.eventual.insert(&review_of(1, 20, -1)).await) })
        })
        .prepare(fill)
        .retry_errors(EXISTS),
        Operation::<Shop>::new(Atomic, "SubsetRepository::update", EVENTUAL, |m| {
            Box::pin(async move {
                let later = doc! { "$set": { "published_date": day(30) } };
                text(m.several.eventual.update(1, 0, later).await)
            })
        })
        .prepare(fill),
        Operation::<Shop>::new(Atomic, "SubsetRepository::delete", EVENTUAL, |m| {
            Box::pin(async move { text(m.several.eventual.delete(1, 0).await) })
        })
        .prepare(fill),
        Operation::<Shop>::new(Atomic, "SubsetRepository::insert", TRANSACTIONAL, |m| {
            Box::pin(async move { text(m.several.transactional.insert(&review_of(1, 20, -1)).await) })
        })
        .prepare(fill)
        .retry_errors(EXISTS),
        Operation::<Shop>::new(Atomic, "SubsetRepository::update", TRANSACTIONAL, |m| {
            Box::pin(async move {
                let later = doc! { "$set": { "published_date": day(30) } };
                text(m.several.transactional.update(1, 0, later).await)
            })
        })
        .prepare(fill),
        Operation::<Shop>::new(Atomic, "SubsetRepository::delete", TRANSACTIONAL, |m| {
            Box::pin(async move { text(m.several.transactional.delete(1, 0).await) })
        })
        .prepare(fill),
        Operation::<Shop>::new(Steps, "SubsetRepository::rebuild_all", "of two subsets", |m| {
            Box::pin(async move { text(m.several.eventual.rebuild_all().await) })
        })
        .prepare(damage),
    ]
}
