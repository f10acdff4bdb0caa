#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Contention, InvalidArgument, SettingsMismatch, Unsupported};
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
    /// It deletes an outlier in one transaction, so that no overflow document is left without its main document.
    /// A [`push`](Self::push) of another process that runs beside a deletion, and beside the insert of a new list with the same `_id`, can
    /// store its element in the new list with an empty position before it. All reads return it, and [`verify`](Self::verify) reports
    /// the position.
    ///
    /// # Through another repository
    /// [`through`](Delete::through) a trash or a history, that repository deletes the main document in the same transaction,
    /// and keeps it with an empty list. The elements are deleted for good, however many they are.
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
    /// A document on which documents of a further pattern depend is refused without its repository: pass that of children or of
    /// another list to `through(..)` first, and delete one to which documents refer by `delete_source(..)`.
    // proof: together::chain::what_depends_on_a_document_is_never_left
    ///
    /// # Cost
    /// One round trip for a typical document. Four for an outlier, and for a document that does not exist, or three if this process
    /// knows that it is an outlier. In a transaction of the caller, one, or two. Through another repository three, and those of
    /// its deletion. The transaction has all overflow documents of the list, and the server aborts it after 60 seconds.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller, nothing is retried. See [sessions and
    /// transactions](mongo_patterns_core::action#sessions-and-transactions).
    ///
    /// # Cancel safety
    /// The list is deleted as a whole or not. Call it again.
    ///
    /// # Errors
    /// [`InvalidArgument`] for an invalid `_id`, or for a repository of other documents. With nothing deleted: [`SettingsMismatch`] when documents of a further pattern would be left, [`Contention`],
    /// [`Unsupported`] for an outlier on a standalone, and those of the other repository.
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
