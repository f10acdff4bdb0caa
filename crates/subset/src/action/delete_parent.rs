use super::prelude::*;

impl<P, C> SubsetRepository<P, C> {
    /// Deletes a parent and all its children. Also deletes children whose parent does not exist.
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
    /// - [`Transactional`](crate::Consistency::Transactional): in one transaction. The server ends it after 60 seconds,
    ///   which suffices for some hundred thousand children.
    /// - [`Eventual`](crate::Consistency::Eventual): the parent first, so that no read finds it with some of its
    ///   children. If this process dies in between, children without a parent remain: [`verify`](Self::verify) reports
    ///   them, and the same call deletes them. A child that is inserted concurrently is deleted by its insert or by
    ///   this call.
    ///
    /// Do not use an `_id` again: if a new parent has the `_id` of a deleted one, a write to the old parent that is
    /// still running can give it a stale subset.
    ///
    /// # Cost
    /// Three round trips, in a transaction too, for any number of children; two if there are none. One more if the
    /// parent does not exist.
    ///
    /// # Cancel safety
    /// - `Transactional`: it has no effect, unless its commit had begun, which completes.
    /// - `Eventual`: children may remain after the parent is deleted; [`verify`](Self::verify) reports them.
    ///
    /// Call it again: it deletes the rest. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// With nothing deleted: [`NotMigrated`] when the parent embeds children that are [not
    /// migrated](Self::migrate_from_embedded), [`InvalidArgument`] for an invalid id, and [`IndexMissing`]. If the
    /// outcome is unknown, call it again.
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
        let mut session = Session::of_caller(self.session).await?;
        write::delete_parent::delete_parent(self.shared, &parent, session.as_mut()).await
    }
}
