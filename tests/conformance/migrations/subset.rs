//! Subsets: of embedded children, of two existing collections, and to other settings.

use futures::future::LocalBoxFuture;
use mongo_patterns::subset::{Direction, Subset};
use mongo_patterns::{ErrorKind, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Document, doc};

use super::model::{Call, Called, Migrates, Selected};
use support::subset::migration::invalid;
use support::subset::migration::{fill, unmigrated};
use support::subset::{Products, Review, builder_of, product, review_of};

pub(super) struct FromEmbedded;

impl Migrates for FromEmbedded {
    fn name(&self) -> &'static str {
        "subset::migrate_from_embedded"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { drop(fill(db, 6).await) })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let products = unmigrated(db);
            call.of(products.migrate_from_embedded()).await
        })
    }

    fn normalize(&self, collection: &str, document: &mut Document) {
        without_id(collection, document);
    }

    fn selected(&self) -> Option<Selected> {
        Some(Selected {
            source: "product",
            target: "review",
            some: doc! { "_id": { "$lte": 2 } },
            others: Err(ErrorKind::TargetNotEmpty),
            invalid: invalid(),
            refusal: ErrorKind::Corrupt,
            refuses_first: true,
            correction: doc! { "$set": { "reviews": [] } },
        })
    }
}

pub(super) struct Existing;

impl Migrates for Existing {
    fn name(&self) -> &'static str {
        "subset::migrate_existing"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let parents = (1..=6).map(|id| doc! { "_id": id, "name": "Super Widget" });
            product(db).insert_many(parents).await.unwrap();
            let children: Vec<Review> = (0..60).map(|n| review_of(1 + n % 6, n, n.into())).collect();
            db.plain_collection("review").insert_many(children).await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let products = unmigrated(db);
            call.of(products.migrate_existing()).await
        })
    }

    fn normalize(&self, collection: &str, document: &mut Document) {
        without_id(collection, document);
    }
}

pub(super) struct Layout;

impl Migrates for Layout {
    fn name(&self) -> &'static str {
        "subset::migrate_layout_from"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            Existing.fill(db).await;
            unmigrated(db).migrate_existing().await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let by_author = Subset::new("reviews").order_by("review_author", Direction::Ascending);
            let new: Products = builder_of(db.database(), by_author.size(3)).build().unwrap();
            call.of(new.migrate_layout_from(&unmigrated(db))).await
        })
    }

    /// For another order, each run writes all parents.
    fn normalize(&self, collection: &str, document: &mut Document) {
        without_id(collection, document);
        document.remove("reviews_version");
    }
}

/// The ids of the children are new in each run.
fn without_id(collection: &str, document: &mut Document) {
    if collection == "review" {
        document.remove("_id");
    }
}
