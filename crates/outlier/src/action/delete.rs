use mongodb::options::FindOneAndDeleteOptions;

use super::prelude::*;
use crate::form::document::is_flagged;

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
    /// It deletes the main document first, so that no reader finds it with some of its elements missing. A process that
    /// dies between the two commands leaves orphaned overflow documents: call it again, or let [`repair`](Self::repair)
    /// find them.
    ///
    /// # Cost
    /// One round trip for a typical document. Two for an outlier, and for a document that does not exist.
    ///
    /// # Cancel safety
    /// Some or all of the overflow documents may be left after the document is deleted; [`verify`](Self::verify) finds
    /// them. Call it again: it deletes them. A [transaction of the caller](mongo_patterns_core::action#cancel-safety)
    /// is aborted.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid `_id`.
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
        let (main, overflow, settings) = self.shared.parts();
        let mut session = Session::of_caller(self.session).await?;
        let id = self.id?.into_bson();
        // A push of this process may be between its two commands.
        let _locked = match session {
            None => Some(self.shared.lock_exclusively(&id).await),
            Some(_) => None,
        };
        let flag = FindOneAndDeleteOptions::builder()
            .projection(query::flag(settings))
            .build();
        let main = send::find_one_and_delete(session.as_mut(), main, query::by_id(&id), flag).await?;
        let mut deleted = Deleted {
            found: main.is_some(),
            overflow_documents: 0,
        };
        if main.is_none_or(|main| is_flagged(settings, &main)) {
            let filter = query::overflow_of(settings, &id);
            let result = send::delete_many(session.as_mut(), overflow, filter, None).await?;
            deleted.overflow_documents = result.deleted_count;
        }
        Ok(deleted)
    }
}
