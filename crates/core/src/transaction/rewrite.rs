//! The rewrite of an array that spans several documents, in a transaction.

use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result, lost_race};
use crate::send::Step;

/// The most documents that one command deletes: their ids must fit into it.
const DELETED_AT_ONCE: usize = 1000;

/// The changes of a rewrite.
#[derive(Debug, Default)]
pub struct Changes {
    /// The ids of the documents to delete, including those that are replaced.
    pub removed: Vec<Bson>,
    /// The documents to insert.
    pub written: Vec<RawDocumentBuf>,
    /// A filter on the key field, so that a sharded cluster can target the deletes. Empty if no filter can have the values.
    pub filter: Document,
}

impl Changes {
    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.written.is_empty()
    }

    /// Applies the changes as steps of a transaction or of its plan. It deletes first, so that no statement violates a
    /// unique index. Two round trips, or more for thousands of documents. A duplicate key is
    /// [`Contention`](ErrorKind::Contention): run the transaction again.
    pub async fn apply(&self, conn: &mut Conn<'_>, collection: &Collection<RawDocumentBuf>) -> Result<()> {
        for ids in self.removed.chunks(DELETED_AT_ONCE) {
            let mut filter = doc! { "_id": { "$in": ids } };
            filter.extend(self.filter.clone());
            let deleted = Step::delete_many("delete documents that are removed or rewritten", collection, filter);
            let deleted = conn.write(deleted).await?;
            if deleted.is_some_and(|reply| reply.deleted != ids.len() as u64) {
                return Err(Error::new(
                    ErrorKind::Contention,
                    "a concurrent writer deleted documents of the key, nothing was changed: retry",
                ));
            }
        }
        if !self.written.is_empty() {
            let written = Step::insert_many("write documents", collection, self.written.clone());
            conn.write(written).await.map_err(lost_race)?;
        }
        Ok(())
    }
}
