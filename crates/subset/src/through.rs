//! Deletions of other repositories, which delete the children too.

use futures::future::BoxFuture;
use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::through::{Deletes, Place, Through};
use mongodb::bson::{Bson, RawDocumentBuf};
use mongodb::{Collection, Namespace};

use crate::repository::SubsetRepository;
use crate::write;

/// The parent is deleted with its children, as by [`delete_parent`](SubsetRepository::delete_parent).
impl<P, C> Deletes for SubsetRepository<P, C> {
    fn deletes(&self) -> (&Collection<RawDocumentBuf>, &str) {
        (&self.shared().parents, "_id")
    }

    fn deletes_related(&self, collection: &Namespace) -> bool {
        self.shared().children.namespace() == *collection
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
        Box::pin(async move { Ok(write::delete(self.shared(), id, through, conn).await?.0) })
    }
}
