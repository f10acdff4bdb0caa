//! Subsets with computed fields: the same products and reviews, of which a product also stores figures of all.

use mongo_patterns::subset::{Consistency, SubsetRepositoryBuilder};
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Atomic, Prefix, Steps};
use super::operation::{Operation, text};
use super::subset::{EXISTS, Shop};
use crate::subset::support::{Product, Products, Review, day, review_of};

const EVENTUAL: &str = "eventual, with computed fields";
const TRANSACTIONAL: &str = "in a transaction, with computed fields";

/// Repositories of one process.
pub(super) struct Computed {
    pub(super) eventual: Products,
    pub(super) transactional: Products,
}

impl Computed {
    pub(super) fn of(builder: impl Fn() -> SubsetRepositoryBuilder<Product, Review>) -> Self {
        let with = |consistency| {
            let builder = builder().consistency(consistency);
            let builder = builder.sum("review_id", "id_sum").count_by("review_author", "authors");
            builder.max("published_date", "newest").build().unwrap()
        };
        Self {
            eventual: with(Consistency::Eventual),
            transactional: with(Consistency::Transactional),
        }
    }
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
        let computed = &m.computed.eventual;
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
        Operation::<Shop>::new(Prefix, "SubsetRepository::insert", EVENTUAL, |m| {
            Box::pin(async move { text(m.computed.eventual.insert(&review_of(1, 20, 20)).await) })
        })
        .prepare(compute)
        .retry_errors(EXISTS),
        Operation::<Shop>::new(Atomic, "SubsetRepository::replace", EVENTUAL, |m| {
            Box::pin(async move { text(m.computed.eventual.replace(&review_of(1, 0, 30)).await) })
        })
        .prepare(compute),
        Operation::<Shop>::new(Atomic, "SubsetRepository::delete", EVENTUAL, |m| {
            Box::pin(async move { text(m.computed.eventual.delete(1, 3).await) })
        })
        .prepare(compute),
        Operation::<Shop>::new(Atomic, "SubsetRepository::insert", TRANSACTIONAL, |m| {
            Box::pin(async move { text(m.computed.transactional.insert(&review_of(1, 20, 20)).await) })
        })
        .prepare(compute)
        .retry_errors(EXISTS),
        Operation::<Shop>::new(Atomic, "SubsetRepository::insert_many", TRANSACTIONAL, |m| {
            Box::pin(async move { text(m.computed.transactional.insert_many(&super::subset::two()).await) })
        })
        .prepare(compute)
        .retry_errors(EXISTS),
        Operation::<Shop>::new(Atomic, "SubsetRepository::update", TRANSACTIONAL, |m| {
            Box::pin(async move {
                let later = doc! { "$set": { "published_date": day(30) } };
                text(m.computed.transactional.update(1, 0, later).await)
            })
        })
        .prepare(compute),
        Operation::<Shop>::new(Atomic, "SubsetRepository::replace", TRANSACTIONAL, |m| {
            Box::pin(async move { text(m.computed.transactional.replace(&review_of(1, 0, 30)).await) })
        })
        .prepare(compute),
        Operation::<Shop>::new(Atomic, "SubsetRepository::delete", TRANSACTIONAL, |m| {
            Box::pin(async move { text(m.computed.transactional.delete(1, 3).await) })
        })
        .prepare(compute),
        Operation::<Shop>::new(Steps, "SubsetRepository::rebuild_all", "of computed fields", |m| {
            Box::pin(async move { text(m.computed.eventual.rebuild_all().await) })
        })
        .prepare(damage),
    ]
}
