//! Subsets with figures: the same products and reviews, of which a product also stores figures of all.

use mongo_patterns::Repository;
use mongo_patterns::subset::SubsetRepositoryBuilder;
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Atomic, Steps};
use super::operation::{Operation, text};
use super::subset::{EXISTS, Shop};
use support::subset::{Product, Products, Review, day, review_of};

const WITH: &str = "in a transaction, with figures";

pub(super) fn repository(builder: SubsetRepositoryBuilder<Product, Review>) -> Products {
    let builder = builder.sum("review_id", "id_sum").count_by("review_author", "authors");
    builder.max("published_date", "newest").build().unwrap()
}

/// Returns whether a product stores figures.
pub(super) fn has_figures(product: &Document) -> bool {
    product.contains_key("id_sum")
}

/// Returns whether the figures of a product are those of its reviews.
pub(super) fn are_figures_correct(product: &Document, reviews: &[Document]) -> bool {
    let id = product.get("_id");
    let reviews: Vec<&Document> = reviews.iter().filter(|review| review.get("product_id") == id).collect();
    let sum: i32 = reviews.iter().map(|review| review.get_i32("review_id").unwrap()).sum();
    let newest = reviews
        .iter()
        .map(|review| *review.get_datetime("published_date").unwrap())
        .max();
    let authors: Vec<Bson> = match reviews.len() {
        0 => Vec::new(),
        count => vec![doc! { "value": "Kristina", "count": count as i64 }.into()],
    };
    product.get_i32("id_sum").ok() == Some(sum)
        && product.get_array("authors").ok() == Some(&authors)
        && product.get_datetime("newest").ok() == newest.as_ref()
}

/// Computes the fields of all products.
fn compute(m: &Shop) -> futures::future::LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let computed = &m.computed;
        computed.ensure_indexes().replace_settings().await.unwrap();
        computed.rebuild_all().await.unwrap();
    })
}

/// Stores a wrong sum.
fn damage(m: &Shop) -> futures::future::LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        compute(m).await;
        let wrong = doc! { "$inc": { "id_sum": 1 } };
        m.products.update_one(doc! { "_id": 1 }, wrong).await.unwrap();
    })
}

pub(super) fn operations() -> Vec<Operation<Shop>> {
    vec![
        Operation::<Shop>::new(Atomic, "SubsetRepository::insert", WITH, |m| {
            Box::pin(async move { text(m.computed.insert(&review_of(1, 20, 20)).await) })
        })
        .prepare(compute)
        .retry_errors(EXISTS),
        Operation::<Shop>::new(Atomic, "SubsetRepository::insert_many", WITH, |m| {
            Box::pin(async move { text(m.computed.insert_many(&super::subset::two()).await) })
        })
        .prepare(compute)
        .retry_errors(EXISTS),
        Operation::<Shop>::new(Atomic, "SubsetRepository::update", WITH, |m| {
            Box::pin(async move {
                let later = doc! { "$set": { "published_date": day(30) } };
                text(m.computed.update(1, 0, later).await)
            })
        })
        .prepare(compute),
        Operation::<Shop>::new(Atomic, "SubsetRepository::replace", WITH, |m| {
            Box::pin(async move { text(m.computed.replace(&review_of(1, 0, 30)).await) })
        })
        .prepare(compute),
        Operation::<Shop>::new(Atomic, "SubsetRepository::delete", WITH, |m| {
            Box::pin(async move { text(m.computed.delete(1, 3).await) })
        })
        .prepare(compute),
        Operation::<Shop>::new(Steps, "SubsetRepository::rebuild_all", "of figures", |m| {
            Box::pin(async move { text(m.computed.rebuild_all().await) })
        })
        .prepare(damage),
    ]
}
