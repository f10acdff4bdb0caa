#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{InvalidArgument, SettingsMismatch};
use mongo_patterns_core::through::{self, Deletes, Place};
use mongo_patterns_core::{Deleted, DocumentId, IntoId, Result, action};

use crate::repository::{OutlierRepository, Shared};
use crate::write::delete::delete;

impl<D, E> OutlierRepository<D, E> {
    /// Deletes a document with its overflow documents.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns::outlier::OutlierRepository<(), String>) -> mongo_patterns::Result<()> {
    /// let deleted = books.delete(2).await?;
    /// if deleted.found {
    ///     println!("deleted the book, in {} documents", deleted.documents);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It deletes an outlier in one transaction, so that no overflow document is left without its main document. If the list
    /// is inserted again at once, a running [`push`](Self::push) of another process can leave an empty position before its
    /// element. All reads return the element, and [`verify`](Self::verify) reports the position.
    ///
    /// # Through another repository
    /// [`through`](Delete::through) a trash or a history, that repository deletes the main document in the same transaction,
    /// and keeps it with an empty list. The elements are deleted for good.
    // proof: together::kept::a_parent_and_a_list_are_deleted_through_another_repository
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::Trash;
    /// # use mongo_patterns::outlier::OutlierRepository;
    /// # async fn f(books: OutlierRepository<(), String>, trash: Trash<()>) -> mongo_patterns::Result<()> {
    /// books.delete(2).through(&trash).await?;
    /// trash.restore(2).await?; // without elements
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// If documents of a further pattern depend on the document, pass their repository to `through(..)` first. If references
    /// of other documents name it, call `delete_source(..)`. Otherwise the call is refused.
    // proof: together::chain::what_depends_on_a_document_is_never_left
    ///
    /// # Cost
    /// One round trip for a typical document, and four for an outlier or an absent document. In a transaction of the caller
    /// one or two. Through another repository three, and the cost of its deletion. The transaction contains all overflow
    /// documents, and the server aborts it after 60 seconds.
    ///
    /// # Cancel safety
    /// The list is deleted or not. Call it again.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: the other repository is of other documents.
    /// - [`SettingsMismatch`]: documents of a further pattern would be left.
    /// - The errors of the other repository.
    pub fn delete(&self, id: impl IntoId) -> Delete<'_> {
        Delete::create(self.shared(), DocumentId::new(id), Vec::new())
    }
}

action! {
    /// Deletes a document with its overflow documents; returned by [`OutlierRepository::delete`].
    pub struct Delete<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        through: Vec<&'a dyn Deletes>,
    }
    with session;

    "delete" => Deleted
}

impl<'a> Delete<'a> {
    /// Deletes the main document through another repository of the same documents, such as a trash, which keeps it.
    ///
    /// See [`delete`](OutlierRepository::delete).
    pub fn through(mut self, repository: &'a dyn Deletes) -> Self {
        self.through.push(repository);
        self
    }

    async fn execute(self) -> Result<Deleted> {
        let Self {
            shared, mut through, ..
        } = self;
        let id = self.id?.into_bson();
        let own = (&shared.main, "_id", Place::Parts);
        through::prepare(own, shared.others(), &mut through).await?;
        let mut conn = shared.enter(&id, self.session).await?;
        delete(shared, &id, &through, &mut conn).await
    }
}
