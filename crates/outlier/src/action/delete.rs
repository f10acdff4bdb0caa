use super::prelude::*;
use crate::write::delete::delete;

impl<D, E> OutlierRepository<D, E> {
    /// Deletes a document with its overflow documents.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let deleted = books.delete(2).await?;
    /// if deleted.found {
    ///     println!("deleted the book, and {} overflow documents", deleted.overflow_documents);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It deletes an outlier in one transaction, so that no overflow document is left without its main document.
    ///
    /// # Cost
    /// One round trip for a typical document. Four for an outlier, or three if this process knows it, and for a document
    /// that does not exist. In a transaction of the caller, one, or two. The transaction has all overflow documents of the
    /// list, and the server aborts it after 60 seconds.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller, nothing is retried. See [sessions and
    /// transactions](mongo_patterns_core::action#sessions-and-transactions).
    ///
    /// # Cancel safety
    /// The list is deleted as a whole or not. Call it again. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid `_id`. With nothing deleted: [`Contention`], and [`Unsupported`] for an outlier on a
    /// standalone.
    pub fn delete(&self, id: impl IntoId) -> Delete<'_> {
        Delete::create(self.shared(), DocumentId::new(id))
    }
}

action! {
    /// Deletes a document; returned by [`OutlierRepository::delete`].
    pub struct Delete<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
    }
    with session;
    "delete" => Deleted
}

impl Delete<'_> {
    async fn execute(self) -> Result<Deleted> {
        let id = self.id?.into_bson();
        let mut conn = self.shared.enter(&id, self.session).await?;
        delete(self.shared, &id, &mut conn).await
    }
}
