//! Documents of an array in several documents, written anew in a transaction.

use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::error::{Error, ErrorKind, Result};
use crate::migration::{Step, Steps};
use crate::session::Session;

/// How many documents a command deletes at most: their ids must fit into one.
const DELETED_AT_ONCE: usize = 1000;

/// What must be written.
#[derive(Debug, Default)]
pub struct Changes {
    /// The ids of the documents that go away, or are written anew.
    pub removed: Vec<Bson>,
    /// The documents that are written.
    pub written: Vec<RawDocumentBuf>,
    /// Equality on the key, by which a sharded cluster can target the deletes, where all documents have it.
    pub filter: Document,
}

impl Changes {
    /// Whether nothing must be written.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.written.is_empty()
    }

    /// The filters of the deletes that [`apply`](Self::apply) sends.
    pub fn deletions(&self) -> impl Iterator<Item = Document> {
        self.removed.chunks(DELETED_AT_ONCE).map(|ids| {
            let mut filter = doc! { "_id": { "$in": ids } };
            filter.extend(self.filter.clone());
            filter
        })
    }

    /// Writes them, in the transaction that is under way in the session.
    ///
    /// # Errors
    /// Those of [`apply_in`](Self::apply_in).
    pub async fn apply(&self, collection: &Collection<RawDocumentBuf>, session: &mut Session<'_>) -> Result<()> {
        self.apply_in(&mut Steps::Run(Some(session)), collection).await
    }

    /// Writes them, as steps of a transaction or of its plan. Deletes first, so that unique indexes hold at every
    /// statement. Two round trips, or more for thousands of documents.
    ///
    /// # Errors
    /// Those of the driver: a conflict, or a duplicate key, when other writers were faster. Then the transaction must be
    /// run again.
    pub async fn apply_in(&self, steps: &mut Steps<'_, '_>, collection: &Collection<RawDocumentBuf>) -> Result<()> {
        for (ids, filter) in self.removed.chunks(DELETED_AT_ONCE).zip(self.deletions()) {
            let deleted = Step::delete_many("delete documents that are removed or rewritten", collection, filter);
            let deleted = steps.write(deleted).await?;
            if deleted.is_some_and(|reply| reply.deleted != ids.len() as u64) {
                return Err(Error::new(
                    ErrorKind::Contention,
                    "documents of the key went away meanwhile, nothing was changed: try again",
                ));
            }
        }
        if !self.written.is_empty() {
            let written = Step::insert_many("write documents", collection, self.written.clone());
            steps.write(written).await?;
        }
        Ok(())
    }
}
