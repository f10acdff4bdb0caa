//! Sales that are old enough for the archive.

use std::fmt::Write;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use mongo_patterns_archive::Archive;
use mongo_patterns_archive_files::FileArchive;
use mongo_patterns_archive_files::object_store::local::LocalFileSystem;
use mongodb::Collection;
use mongodb::bson::{DateTime, Document, doc};
use tempfile::TempDir;

use crate::bucket::scatter;

#[derive(Clone)]
pub(super) struct Sales {
    pub(super) current: Collection<Document>,
    pub(super) archived: Collection<Document>,
    directory: Arc<TempDir>,
}

impl Sales {
    pub(super) fn new(current: Collection<Document>, archived: Collection<Document>) -> Result<Self> {
        let directory = Arc::new(tempfile::tempdir()?);
        Ok(Self {
            current,
            archived,
            directory,
        })
    }

    pub(super) fn archive(&self) -> Result<Archive<Document>> {
        let archive = Archive::builder(self.current.clone(), self.archived.clone());
        Ok(archive.age_field("date").older_than(Duration::ZERO).build()?)
    }

    pub(super) fn files(&self) -> Result<FileArchive<Document>> {
        let store = LocalFileSystem::new_with_prefix(self.directory.path())?.with_fsync(true);
        let archive = FileArchive::builder(self.current.clone(), Arc::new(store), "");
        Ok(archive.age_field("date").older_than(Duration::ZERO).build()?)
    }

    /// Deletes all sales, also the archived ones.
    pub(super) async fn clear(&self) -> Result<()> {
        for collection in [&self.current, &self.archived] {
            collection.drop().await?;
        }
        let database = self.current.client().database(&self.current.namespace().db);
        let records = database.collection::<Document>("mongo_patterns");
        records.delete_many(doc! { "_id.kind": "archive_file" }).await?;
        for file in fs::read_dir(self.directory.path())? {
            fs::remove_file(file?.path())?;
        }
        Ok(())
    }

    /// Stores this number of old sales.
    pub(super) async fn fill(&self, documents: i64) -> Result<()> {
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
    // Other ones would be compressed away.
    let note = (0..10).fold(String::new(), |mut note, part| {
        let _ = write!(note, "{:015x}", scatter(id as u64 * 10 + part) >> 4);
        note
    });
    doc! {
        "_id": id, "customer_name": "Claire", "date": DateTime::from_millis(1_514_764_800_000 + id * 1000),
        "products": [{ "product_id": id % 100, "quantity": 1 }], "note": note, "n": 0,
    }
}
