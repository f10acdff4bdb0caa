//! Deletions of other repositories, whose documents go to the trash.

use futures::future::BoxFuture;
use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::through::{Deletes, Place, Through};
use mongodb::bson::{Bson, RawDocumentBuf};
use mongodb::{Collection, Namespace};

use super::delete::{delete, entry_of_now};
use crate::trash::Trash;

/// The document goes to the trash, as by [`delete`](Trash::delete).
impl<D> Deletes for Trash<D> {
    fn deletes(&self) -> (&Collection<RawDocumentBuf>, &str) {
        (&self.shared().current, "_id")
    }

    fn deletes_related(&self, collection: &Namespace) -> bool {
        self.shared().related.has(collection)
    }

    fn place(&self) -> Place {
        Place::Trash
    }

    fn prepare(&self) -> BoxFuture<'_, Result<()>> {
        let shared = self.shared();
        Box::pin(async {
            shared.checks.topology(&shared.current).await?.check_transactions()?;
            shared.check_related_indexes().await
        })
    }

    fn delete_in<'a>(
        &'a self,
        id: &'a Bson,
        _: &'a Through<'a>,
        conn: &'a mut Conn<'_>,
    ) -> BoxFuture<'a, Result<bool>> {
        let shared = self.shared();
        let entry = entry_of_now(shared, None);
        Box::pin(async move { Ok(delete(shared, id, &entry, conn).await?.found) })
    }
}
