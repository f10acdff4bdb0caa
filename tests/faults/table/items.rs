//! The migrations of items, of four patterns.

use futures::TryStreamExt;
use mongodb::Database;
use mongodb::bson::Document;

use super::operation::Promise::{Reads, Steps};
use super::operation::{Call, Model, Of, Operations, calls};
use crate::conformance::items::*;
use support::common::all;

macro_rules! model {
    ($name:ident, $pattern:literal, $repository:literal, $collections:expr, $build:ident, $fill:ident) => {
        pub(super) struct $name {
            database: Database,
        }

        impl Model for $name {
            const PATTERN: &'static str = $pattern;
            const COLLECTIONS: &'static [&'static str] = &$collections;

            fn new(of: Of<'_>) -> Self {
                Self {
                    database: of.database.clone(),
                }
            }

            async fn fill(&self) {
                $fill(&self.database).await;
            }

            /// Items, whatever their version is.
            async fn facts(&self) -> Vec<String> {
                let mut facts = Vec::new();
                for name in Self::COLLECTIONS {
                    for document in all(&self.database.collection::<Document>(name)).await {
                        facts.extend(numbers(document).into_iter().map(|n| format!("{name} {n}")));
                    }
                }
                facts.sort();
                facts
            }

            /// Readers find items of both versions until then.
            async fn read(&self) -> Option<Vec<String>> {
                None
            }

            /// A subset is stale until it is refreshed.
            async fn found(&self) -> Vec<String> {
                let found = $build(&self.database)
                    .verify()
                    .stream()
                    .try_collect::<Vec<_>>()
                    .await
                    .unwrap();
                let found = found.iter().filter(|_| Self::PATTERN != "subset");
                found.map(|finding| format!("{:?}", finding.problem)).collect()
            }
        }

        impl Operations for $name {
            fn operations() -> Vec<Call<Self>> {
                calls! { $name;
                    Steps, concat!($repository, "::migrate_items"), "", |m|
                        $build(&m.database).migrate_items(steps()).chunk(2).await.map(drop);
                    Reads, concat!($repository, "::migrate_items + MigrateItems::plan"), "", |m|
                        $build(&m.database).migrate_items(steps()).plan().await.map(drop);
                }
            }
        }
    };
}

/// Returns the numbers of the items of a document, with those of its arrays.
fn numbers(document: Document) -> Vec<String> {
    if let Some(n) = document.get("n") {
        return vec![n.to_string()];
    }
    let arrays = document.into_iter().filter_map(|(_, value)| value.as_array().cloned());
    let items = arrays.flatten().filter_map(|item| item.as_document().cloned());
    items
        .map(|item| format!("in an array: {}", item.get("n").unwrap()))
        .collect()
}

model!(Trades, "bucket", "BucketRepository", ["trades"], trades, fill_trades);
model!(
    Books,
    "outlier",
    "OutlierRepository",
    ["sales", "extra_sales"],
    books,
    fill_books
);
model!(
    Patrons,
    "embedded",
    "EmbeddedRepository",
    ["patron"],
    patrons,
    fill_patrons
);
model!(
    Products,
    "subset",
    "SubsetRepository",
    ["product", "review"],
    products,
    fill_products
);
