//! Histories: the collections of the manual's recipe.

use futures::future::LocalBoxFuture;
use mongo_patterns::Result;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::Document;

use super::model::{Call, Called, Migrates};
use crate::history::migrate::by_the_recipe;
use crate::history::support::builder;

pub(super) struct Existing;

impl Migrates for Existing {
    fn name(&self) -> &'static str {
        "history::migrate_existing"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move { drop(by_the_recipe(db).await) })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let policies = builder(db.database()).build().unwrap();
            call.of(policies.migrate_existing()).await
        })
    }

    /// Ids and times are new, also that of a document without a revision.
    fn normalize(&self, _collection: &str, document: &mut Document) {
        document.remove("_id");
        document.remove("dateSet");
    }

    fn is_paced(&self) -> bool {
        false
    }
}
