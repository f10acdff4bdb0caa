//! Subsets with figures, and several subsets of one parent.

use futures::future::LocalBoxFuture;
use mongo_patterns::Repository;
use mongo_patterns::subset::{Direction, Subset, SubsetRepositoryBuilder};
use mongodb::bson::{Bson, Document, doc};

use super::operation::Promise::{Atomic, Steps};
use super::operation::{Call, calls};
use super::subset::{EXISTS, Shop, two};
use support::subset::{Product, Products, Review, day, review_of};

const WITH_FIGURES: &str = "in a transaction, with figures";
const WITH_OLDEST: &str = "in a transaction, with two subsets";

pub(super) fn operations() -> Vec<Call<Shop>> {
    calls! { Shop;
        Atomic, "SubsetRepository::insert", WITH_FIGURES, |m|
            m.computed.insert(&review_of(1, 20, 20)).await => prepare(with_figures), retry_errors(EXISTS);
        Atomic, "SubsetRepository::insert_many", WITH_FIGURES, |m|
            m.computed.insert_many(&two()).await => prepare(with_figures), retry_errors(EXISTS);
        Atomic, "SubsetRepository::update", WITH_FIGURES, |m|
            m.computed.update(1, 0, doc! { "$set": { "published_date": day(30) } }).await => prepare(with_figures);
        Atomic, "SubsetRepository::replace", WITH_FIGURES, |m|
            m.computed.replace(&review_of(1, 0, 30)).await => prepare(with_figures);
        Atomic, "SubsetRepository::delete", WITH_FIGURES, |m| m.computed.delete(1, 3).await => prepare(with_figures);
        Steps, "SubsetRepository::rebuild_all", "of figures", |m|
            m.computed.rebuild_all().await => prepare(with_wrong_sum);
        Atomic, "SubsetRepository::insert", WITH_OLDEST, |m|
            m.several.insert(&review_of(1, 20, -1)).await => prepare(with_oldest), retry_errors(EXISTS);
        Atomic, "SubsetRepository::update", WITH_OLDEST, |m|
            m.several.update(1, 0, doc! { "$set": { "published_date": day(30) } }).await => prepare(with_oldest);
        Atomic, "SubsetRepository::delete", WITH_OLDEST, |m| m.several.delete(1, 0).await => prepare(with_oldest);
        Steps, "SubsetRepository::rebuild_all", "of two subsets", |m|
            m.several.rebuild_all().await => prepare(without_oldest);
    }
}

/// Returns a repository of the same products and reviews, of which a product also stores figures of all.
pub(super) fn computed(builder: SubsetRepositoryBuilder<Product, Review>) -> Products {
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

/// The same, of which a product also shows the oldest one.
pub(super) fn several(builder: SubsetRepositoryBuilder<Product, Review>) -> Products {
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

/// Computes the fields of all products.
fn with_figures(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let computed = &m.computed;
        computed.ensure_indexes().replace_settings().await.unwrap();
        computed.rebuild_all().await.unwrap();
    })
}

/// Stores a wrong sum.
fn with_wrong_sum(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        with_figures(m).await;
        let wrong = doc! { "$inc": { "id_sum": 1 } };
        m.products.update_one(doc! { "_id": 1 }, wrong).await.unwrap();
    })
}

/// Fills the second subset of all products.
fn with_oldest(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let several = &m.several;
        several.ensure_indexes().replace_settings().await.unwrap();
        several.rebuild_all().await.unwrap();
    })
}

/// Removes the second subset of a product.
fn without_oldest(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        with_oldest(m).await;
        let wrong = doc! { "$set": { "oldest": [] } };
        m.products.update_one(doc! { "_id": 1 }, wrong).await.unwrap();
    })
}
