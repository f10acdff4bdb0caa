use super::prelude::*;

impl<P, C> SubsetRepository<P, C> {
    /// Deletes a child and writes its parent, in one transaction. If the child was in the subset, the next one enters it.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let deleted = products.delete(1, 786).await?;
    /// if !deleted.found {
    ///     println!("the product has no such review");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is idempotent: it writes the parent even if the child does not exist.
    ///
    /// # Cost
    /// As [`update`](Self::update).
    ///
    /// # Cancel safety
    /// It has no effect, unless its commit had begun, which completes. Call it again. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With no effect: [`NotFound`] when the parent does not exist, [`NotMigrated`] when it embeds children that are
    /// [not migrated](Self::migrate_from_embedded), [`InvalidArgument`] for an invalid id, [`IndexMissing`], and
    /// [`Unsupported`] on a standalone. If the outcome is unknown, call it again.
    pub fn delete(&self, parent: impl IntoId, child_id: impl IntoId) -> Delete<'_> {
        Delete::create(self.shared(), DocumentId::new(parent), DocumentId::new(child_id))
    }
}

action! {
    /// Deletes a child; returned by [`SubsetRepository::delete`].
    pub struct Delete<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        child: Result<DocumentId>,
    }
    with session;
    "delete" => Removed
}

impl Delete<'_> {
    async fn execute(self) -> Result<Removed> {
        let (parent, child) = (self.parent?.into_bson(), self.child?.into_bson());
        let write = Write::of_child(self.shared, parent, child, Change::Delete);
        Ok(Removed::new(write::run(write, self.session).await?.found))
    }
}
