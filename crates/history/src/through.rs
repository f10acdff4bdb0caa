//! Deletions of other repositories, which are revisions of the documents.

use futures::future::BoxFuture;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::through::{self, Deletes, Place, Through};
use mongo_patterns_core::{ErrorKind, Result};
use mongodb::bson::{Bson, Document, RawDocumentBuf};
use mongodb::{Collection, Namespace};

use crate::query::change::Change;
use crate::read::find_current;
use crate::repository::{HistoryRepository, Shared};
use crate::results::Recorded;
use crate::write::change::Request;
use crate::write::joined::change_alone;

/// The deletion is a revision, as by [`delete`](HistoryRepository::delete).
impl<D> Deletes for HistoryRepository<D> {
    fn deletes(&self) -> (&Collection<RawDocumentBuf>, &str) {
        let shared = self.shared();
        (&shared.current, shared.settings.id.as_str())
    }

    /// The revisions remain, with the deletion's.
    fn deletes_related(&self, collection: &Namespace) -> bool {
        self.shared().revisions.namespace() == *collection
    }

    fn place(&self) -> Place {
        Place::History
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
        through: &'a Through<'a>,
        conn: &'a mut Conn<'_>,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let request = Request {
                change: Change::Delete,
                expected: None,
                filter: Document::new(),
                with: Document::new(),
            };
            match delete_through(self.shared(), id, &request, through, conn).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        })
    }
}

/// Records the deletion of a document, in a transaction. Further repositories keep it without the mark of the deletion, so
/// it is inserted again for them.
pub(crate) async fn delete_through(
    shared: &Shared,
    id: &Bson,
    request: &Request,
    through: &Through<'_>,
    conn: &mut Conn<'_>,
) -> Result<Recorded> {
    let before = match through.is_empty() {
        true => None,
        false => find_current(shared, id, conn).await?,
    };
    let recorded = change_alone(shared, id, request, conn).await?;
    if let Some(before) = before {
        conn.insert_one(&shared.current, before, None).await?;
        through::delete_found(through, id, conn).await?;
    }
    Ok(recorded)
}
