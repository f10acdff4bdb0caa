//! Deletions of other repositories, which are revisions of the documents.

use futures::future::BoxFuture;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::through::{Deletes, Through};
use mongo_patterns_core::{ErrorKind, Result};
use mongodb::bson::{Bson, Document, RawDocumentBuf};
use mongodb::{Collection, Namespace};

use crate::query::change::Change;
use crate::repository::HistoryRepository;
use crate::write::change::Request;
use crate::write::joined::change_alone;

/// The deletion is a revision, as by [`delete`](HistoryRepository::delete).
impl<D> Deletes for HistoryRepository<D> {
    fn deletes(&self) -> (&Collection<RawDocumentBuf>, &str) {
        let shared = self.shared();
        (&shared.current, shared.settings.id.as_str())
    }

    fn deletes_related(&self, _: &Namespace) -> bool {
        false
    }

    fn has_through(&self) -> bool {
        false
    }

    fn prepare(&self) -> BoxFuture<'_, Result<()>> {
        let shared = self.shared();
        Box::pin(async move {
            shared.check_write().await?;
            shared.others().await.map(drop)
        })
    }

    fn delete_in<'a>(
        &'a self,
        id: &'a Bson,
        _: &'a Through<'a>,
        conn: &'a mut Conn<'_>,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let request = Request {
                change: Change::Delete,
                expected: None,
                filter: Document::new(),
                with: Document::new(),
            };
            match change_alone(self.shared(), id, &request, conn).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        })
    }
}
