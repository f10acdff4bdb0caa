//! Deletions of other repositories, which delete the overflow documents too.

use futures::future::BoxFuture;
use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::through::{Deletes, Place, Through};
use mongodb::bson::{Bson, RawDocumentBuf};
use mongodb::{Collection, Namespace};

use crate::repository::OutlierRepository;
use crate::write::delete::{delete_in_callers_transaction, delete_through};

/// The main document is deleted with its overflow documents, as by [`delete`](OutlierRepository::delete).
impl<D, E> Deletes for OutlierRepository<D, E> {
    fn deletes(&self) -> (&Collection<RawDocumentBuf>, &str) {
        (&self.shared().main, "_id")
    }

    fn deletes_related(&self, collection: &Namespace) -> bool {
        self.shared().overflow.namespace() == *collection
    }

    fn place(&self) -> Place {
        Place::Parts
    }

    fn prepare(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.shared().check_indexes())
    }

    fn delete_in<'a>(
        &'a self,
        id: &'a Bson,
        through: &'a Through<'a>,
        conn: &'a mut Conn<'_>,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let (found, _) = match through.is_empty() {
                true => delete_in_callers_transaction(self.shared(), id, conn).await?,
                false => delete_through(self.shared(), id, through, conn).await?,
            };
            Ok(found)
        })
    }
}
