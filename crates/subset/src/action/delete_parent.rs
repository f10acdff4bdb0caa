#[allow(unused_imports)] // the links of the documentation use the kinds
use mongo_patterns_core::ErrorKind::{InvalidArgument, NotMigrated, SettingsMismatch};
use mongo_patterns_core::through::Deletes;
use mongo_patterns_core::{Deleted, DocumentId, IntoId, Result, action};

use crate::repository::{Shared, SubsetRepository};
use crate::write;

impl<P, C> SubsetRepository<P, C> {
    /// Deletes a parent and all its children, in one transaction. Also deletes children whose parent does not exist.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns::subset::SubsetRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// let deleted = products.delete_parent(1).await?;
    /// println!("deleted {} documents: the product and its reviews", deleted.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The server ends the transaction after 60 seconds, which suffices for some hundred thousand children.
    ///
    /// Do not use an `_id` again: a running [`refresh`](Self::refresh) of the deleted parent can give the new parent a stale
    /// subset.
    ///
    /// # Through another repository
    /// [`through`](DeleteParent::through) a trash or a history, that repository deletes the parent in the same transaction,
    /// and keeps it without children: with empty subsets, and the total and the figures of a new parent. The children are
    /// deleted for good.
    // proof: together::kept::a_parent_and_a_list_are_deleted_through_another_repository
    ///
    /// ```no_run
    /// # use mongo_patterns::archive::Trash;
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # async fn f(products: SubsetRepository<i32, i32>, trash: Trash<i32>) -> mongo_patterns::Result<()> {
    /// products.delete_parent(1).through(&trash).await?;
    /// trash.restore(1).await?; // without reviews
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// If documents of a further pattern depend on the parent, pass their repository to `through(..)` first. If references
    /// of other documents name it, call `delete_source(..)`. Otherwise the call is refused.
    // proof: together::chain::what_depends_on_a_document_is_never_left
    ///
    /// # Cost
    /// Three round trips, for any number of children, and one more if the parent does not exist. Through another repository
    /// also the cost of its deletion.
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. Call it again.
    ///
    /// # Errors
    /// - [`NotMigrated`]: the parent embeds children that are [not migrated](Self::migrate_from_embedded).
    /// - [`SettingsMismatch`]: documents of a further pattern would be left.
    /// - [`InvalidArgument`]: the other repository is of other documents.
    /// - The errors of the other repository.
    pub fn delete_parent(&self, parent: impl IntoId) -> DeleteParent<'_> {
        DeleteParent::create(self.shared(), DocumentId::new(parent), Vec::new())
    }
}

action! {
    /// Deletes a parent and its children; returned by [`SubsetRepository::delete_parent`].
    pub struct DeleteParent<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        through: Vec<&'a dyn Deletes>,
    }
    with session;

    "delete_parent" => Deleted
}

impl<'a> DeleteParent<'a> {
    /// Deletes the parent through another repository of the same documents, such as a trash, which keeps it.
    ///
    /// See [`delete_parent`](SubsetRepository::delete_parent).
    pub fn through(mut self, repository: &'a dyn Deletes) -> Self {
        self.through.push(repository);
        self
    }

    async fn execute(mut self) -> Result<Deleted> {
        let parent = self.parent?.into_bson();
        write::delete_parent(self.shared, &parent, &mut self.through, self.session).await
    }
}
