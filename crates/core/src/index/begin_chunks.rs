//! The begin of a call that works through the documents of a repository.

use futures::future::BoxFuture;
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use super::Ensure;
use crate::conn::Conn;
use crate::error::Result;
use crate::migration::{ChunkedFind, Chunks, MigrationProgress};

impl Ensure<'_> {
    /// Checks the settings and the indexes, counts the documents for a progress callback, and begins to walk through them.
    pub fn begin_chunks<'s>(
        &'s self,
        purpose: &'static str,
        walk: ChunkedFind,
        collection: &'s Collection<RawDocumentBuf>,
        conn: &'s mut Conn<'_>,
        progress: &'s mut MigrationProgress<'_>,
    ) -> BoxFuture<'s, Result<Chunks>> {
        Box::pin(async move {
            self.require(conn).await?;
            for plan in self.plans() {
                plan.check_before(conn).await?;
            }
            if progress.reporter.is_asked() {
                let filter = walk.filter.clone();
                progress
                    .reporter
                    .begin(Conn::new().count_documents(collection, filter, None).await?);
            }
            conn.chunks(purpose, walk, collection).await
        })
    }
}
