//! Sales that are old enough for the archive.

use std::time::Duration;

use anyhow::Result;
use mongo_patterns_archive::Archive;
use mongo_patterns_core::Repository;
use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};

#[derive(Clone)]
pub(super) struct Sales {
    pub(super) current: Collection<Document>,
    pub(super) archived: Collection<Document>,
}

impl Sales {
    pub(super) fn archive(&self, in_another_cluster: bool) -> Result<Archive<Document>> {
        let mut archive = Archive::builder(self.current.clone(), self.archived.clone());
        if in_another_cluster {
            archive = archive.another_cluster();
        }
        Ok(archive.age_field("date").older_than(Duration::ZERO).build()?)
    }

    /// Stores this number of old sales, in place of all.
    pub(super) async fn fill(&self, documents: i64, in_another_cluster: bool) -> Result<()> {
        for collection in [&self.current, &self.archived] {
            collection.drop().await?;
        }
        let indexes = self.archive(in_another_cluster)?;
        indexes.ensure_indexes().replace_settings().await?;
        let mut from = 0;
        while from < documents {
            let to = documents.min(from + 10_000);
            self.current.insert_many((from..to).map(sale)).await?;
            from = to;
        }
        Ok(())
    }
}

/// A sale of 300 bytes.
fn sale(id: i64) -> Document {
    doc! {
        "_id": id, "customer_name": "Claire", "date": DateTime::from_millis(1_514_764_800_000 + id * 1000),
        "products": [{ "product_id": id % 100, "quantity": 1 }], "note": "x".repeat(150), "n": 0,
    }
}
