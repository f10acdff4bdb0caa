//! Documents of several versions.

use futures::future::LocalBoxFuture;
use mongo_patterns::{Repository, Result};
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::{Document, doc};

use super::model::{Call, Called, Migrates};
use support::schema::contacts::{mixed, stored, typed, v1};

/// Typed steps and steps on the server, in turns.
pub(super) struct Versions;

impl Migrates for Versions {
    fn name(&self) -> &'static str {
        "schema::migrate"
    }

    fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            typed(db).ensure_indexes().await.unwrap();
            let newest = |id: i32| doc! { "_id": id, "schemaVersion": 5 };
            let documents = (0..12).map(v1).chain((12..15).map(newest));
            stored(db)
                .insert_many(documents.collect::<Vec<Document>>())
                .await
                .unwrap();
        })
    }

    fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
        Box::pin(async move {
            let contacts = mixed(db);
            call.of(contacts.migrate()).await
        })
    }

    /// Those of the first chunk, without the transaction.
    fn lists_all(&self) -> bool {
        false
    }
}
