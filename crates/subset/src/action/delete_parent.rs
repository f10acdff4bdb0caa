use super::prelude::*;

impl<P, C> SubsetRepository<P, C> {
    /// Deletes a parent and all its children, in one transaction. Also deletes children whose parent does not exist.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let deleted = products.delete_parent(1).await?;
    /// if deleted.found {
    ///     println!("deleted the product and {} reviews", deleted.children);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The server ends the transaction after 60 seconds, which suffices for some hundred thousand children.
    ///
    /// Do not use an `_id` again: if a new parent has the `_id` of a deleted one, a [`rebuild`](Self::rebuild) of the old
    /// parent that is still running can give it a stale subset.
    ///
    /// # Cost
    /// Three round trips, for any number of children. One more if the parent does not exist.
    ///
    /// # Cancel safety
    /// It has no effect, unless its commit had begun, which completes. Call it again. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing deleted: [`NotMigrated`] when the parent embeds children that are [not
    /// migrated](Self::migrate_from_embedded), [`InvalidArgument`] for an invalid id, [`IndexMissing`], and
    /// [`Unsupported`] on a standalone. If the outcome is unknown, call it again.
    pub fn delete_parent(&self, parent: impl IntoId) -> DeleteParent<'_> {
        DeleteParent::create(self.shared(), DocumentId::new(parent))
    }
}

action! {
    /// Deletes a parent and its children; returned by [`SubsetRepository::delete_parent`].
    pub struct DeleteParent<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
    }
    with session;
    "delete_parent" => DeletedParent
}

impl DeleteParent<'_> {
    async fn execute(self) -> Result<DeletedParent> {
        let parent = self.parent?.into_bson();
        self.shared.check_indexes().await?;
        let mut conn = self.shared.enter(std::slice::from_ref(&parent), self.session).await?;
        write::delete_parent::delete_parent(self.shared, &parent, &mut conn).await
    }
}
