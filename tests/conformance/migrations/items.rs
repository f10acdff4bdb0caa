//! The migrations of items.

use futures::future::LocalBoxFuture;
use mongo_patterns::Result;
use mongo_patterns_testkit::TestDatabase;
use mongodb::bson::Document;

use super::model::{Call, Called, Migrates};
use crate::conformance::items::*;

macro_rules! migrates {
    ($name:ident, $text:literal, $fill:ident, $build:ident) => {
        pub(super) struct $name;

        impl Migrates for $name {
            fn name(&self) -> &'static str {
                $text
            }

            fn fill<'a>(&'a self, db: &'a TestDatabase) -> LocalBoxFuture<'a, ()> {
                Box::pin(async move { $fill(&db.plain_client().database(db.database().name())).await })
            }

            fn call<'a>(&'a self, db: &'a TestDatabase, call: Call<'a>) -> LocalBoxFuture<'a, Result<Called>> {
                Box::pin(async move {
                    let repository = $build(db.database());
                    call.of(repository.migrate_items(steps())).await
                })
            }

            fn normalize(&self, collection: &str, document: &mut Document) {
                without_ids(collection, document);
            }

            /// Those of the first chunk, without the transaction.
            fn lists_all(&self) -> bool {
                false
            }
        }
    };
}

migrates!(Trades, "bucket::migrate_items", fill_trades, trades);
migrates!(Books, "outlier::migrate_items", fill_books, books);
migrates!(Patrons, "embedded::migrate_items", fill_patrons, patrons);
migrates!(Products, "subset::migrate_items", fill_products, products);
