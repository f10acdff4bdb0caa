//! Calls for products with figures, and with two subsets.

use futures::future::LocalBoxFuture;
use mongo_patterns::Repository;
use mongodb::bson::doc;

use super::operation::Promise::{Atomic, Steps};
use super::operation::{Call, EXISTS, calls};
use super::subset::{Shop, two};
use support::subset::{day, review_of};

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
        Steps, "SubsetRepository::refresh_all", "of figures", |m|
            m.computed.refresh_all().await => prepare(with_wrong_sum);
        Atomic, "SubsetRepository::insert", WITH_OLDEST, |m|
            m.several.insert(&review_of(1, 20, -1)).await => prepare(with_oldest), retry_errors(EXISTS);
        Atomic, "SubsetRepository::update", WITH_OLDEST, |m|
            m.several.update(1, 0, doc! { "$set": { "published_date": day(30) } }).await => prepare(with_oldest);
        Atomic, "SubsetRepository::delete", WITH_OLDEST, |m| m.several.delete(1, 0).await => prepare(with_oldest);
        Steps, "SubsetRepository::refresh_all", "of two subsets", |m|
            m.several.refresh_all().await => prepare(without_oldest);
    }
}

/// Computes the fields of all products.
fn with_figures(m: &Shop) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let computed = &m.computed;
        computed.ensure_indexes().replace_settings().await.unwrap();
        computed.refresh_all().await.unwrap();
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
        several.refresh_all().await.unwrap();
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
