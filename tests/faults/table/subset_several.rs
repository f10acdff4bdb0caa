//! Several subsets of one parent: the same products and reviews, of which a product also shows the oldest one.

use mongo_patterns::Repository;
use mongo_patterns::subset::{Direction, Subset, SubsetRepositoryBuilder};
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Atomic, Steps};
use super::operation::{Operation, text};
use super::subset::{EXISTS, Shop};
use support::subset::{Product, Products, Review, day, review_of};

const WITH: &str = "in a transaction, with two subsets";

pub(super) fn repository(builder: SubsetRepositoryBuilder<Product, Review>) -> Products {
    let oldest = Subset::new("oldest").order_by("published_date", Direction::Ascending);
    let oldest = oldest.size(1).filter(doc! { "review_id": { "$gte": 0 } });
    builder.subset(oldest).build().unwrap()
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
        let several = &m.several;
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
        Operation::<Shop>::new(Atomic, "SubsetRepository::insert", WITH, |m| {
            Box::pin(async move { text(m.several.insert(&review_of(1, 20, -1)).await) })
        })
        .prepare(fill)
        .retry_errors(EXISTS),
        Operation::<Shop>::new(Atomic, "SubsetRepository::update", WITH, |m| {
            Box::pin(async move {
                let later = doc! { "$set": { "published_date": day(30) } };
                text(m.several.update(1, 0, later).await)
            })
        })
        .prepare(fill),
        Operation::<Shop>::new(Atomic, "SubsetRepository::delete", WITH, |m| {
            Box::pin(async move { text(m.several.delete(1, 0).await) })
        })
        .prepare(fill),
        Operation::<Shop>::new(Steps, "SubsetRepository::rebuild_all", "of two subsets", |m| {
            Box::pin(async move { text(m.several.rebuild_all().await) })
        })
        .prepare(damage),
    ]
}
