//! Loads documents with copies of their sources.

use mongo_patterns_core::Error;
use mongo_patterns_reference::ReferenceRepository;
use mongodb::bson::{Document, RawDocumentBuf};

use super::item::Item;
use super::store::{Store, Tally, one_by_one};
use super::to_flat::each;
use crate::failure::Failure;

/// The target of referring documents, whose copies the repository fills in.
pub(crate) struct ReferringDocuments(pub(crate) ReferenceRepository<RawDocumentBuf, Document>);

impl Store for ReferringDocuments {
    const COMMANDS: [&'static str; 2] = ["reference load", "reference load --dry-run"];

    fn namespace(&self) -> String {
        self.0.collection().namespace().to_string()
    }

    fn advice(&self) -> &'static str {
        "give each document an `_id`"
    }

    /// Later updates of a source find the copies by the indexes.
    async fn begin(&self) -> Result<(), Failure> {
        self.0.ensure_indexes().await?;
        Ok(())
    }

    fn batches(&self, items: Vec<Item>) -> Vec<Vec<Item>> {
        each(items)
    }

    async fn store(&self, items: &[Item]) -> Result<Tally, Error> {
        one_by_one(items, async |item| {
            self.0.insert(&item.document()).await?;
            Ok(Tally::of_row(true))
        })
        .await
    }
}
