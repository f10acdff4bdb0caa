//! Histories: the collections of the manual's recipe, of documents with an id field, or by `_id`.

use futures::future::LocalBoxFuture;
use mongo_patterns::Result;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::Document;

use super::model::{Call, Called, Migrates};
use support::history::{builder, by_id};
use support::history::{by_id_migrate, intervals, migrate};

pub(super) struct Existing {
    pub(super) by_id: bool,
}

impl Migrates for Existing {
    fn name(&self) -> &'static str {
        match self.by_id {
            true => "history::migrate_existing, by _id",
            false => "history::migrate_existing",
        }
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            match self.by_id {
                true => by_id_migrate::by_the_recipe(db, "documentId").await,
                false => drop(migrate::by_the_recipe(db).await),
            }
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let builder = if self.by_id { by_id } else { builder };
            let policies = builder(db.database()).build().unwrap();
            call.of(policies.migrate_existing()).await
        })
    }

    /// Ids and times are new, also that of a document without a revision.
    fn normalize(&self, collection: &str, document: &mut Document) {
        if !self.by_id || collection == "policyRevisions" {
            document.remove("_id");
        }
        document.remove("dateSet");
    }

    fn is_paced(&self) -> bool {
        false
    }
}

/// What the manual's recipe of intervals leaves: of the pants all but the last price are wrong.
pub(super) struct Intervals;

impl Migrates for Intervals {
    fn name(&self) -> &'static str {
        "intervals::migrate_existing"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            let stored = intervals::stored(db);
            intervals::by_the_recipe(&stored, "pants", 9).await;
            let unchanged = (0..11).map(|item| intervals::price(item, 1));
            stored.insert_many(unchanged).await.unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let prices = intervals::builder(db.database()).build().unwrap();
            call.of(prices.migrate_existing()).await
        })
    }

    fn normalize(&self, _: &str, document: &mut Document) {
        document.remove("_id");
    }

    fn rated(&self, total: u64) -> u64 {
        total - 1
    }
}
