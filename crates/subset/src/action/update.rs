use super::prelude::*;
use crate::form::child::checked_update;

impl<P, C> SubsetRepository<P, C> {
    /// Sets fields of a child, and writes its parent. If a field of the order changes, the child may enter or leave the
    /// subset.
    ///
    /// ```no_run
    /// # use mongodb::bson::doc;
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// products.update(1, 786, doc! { "review_text": "Still amazing." }).unset(["draft"]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The names are those of plain fields, and the values are stored literally. The parent and the id of a child
    /// cannot be changed: delete it, and insert it again.
    ///
    /// - [`Transactional`](crate::Consistency::Transactional): both in one transaction.
    /// - [`Eventual`](crate::Consistency::Eventual): the child first. If the child is written and the write of its
    ///   parent fails, [`stored_count`](Error::stored_count) of the error is 1.
    ///
    /// # Cost
    /// Four round trips, and up to seven more while other processes write to the parent. In a transaction also four, if
    /// this repository has written the parent in a transaction before, without a conflict, and otherwise five, as with a
    /// [total](crate::SubsetRepositoryBuilder::total_field). Each examines one document, except the read of the first
    /// children, which examines as many as are embedded.
    ///
    /// # Cancel safety
    /// - `Transactional`: it has no effect, unless its commit had begun, which completes.
    /// - `Eventual`: the child may be changed and its parent not be written. The subset is then stale until the next
    ///   write to the parent, or until [`rebuild`](Self::rebuild) or [`repair`](Self::repair); [`verify`](Self::verify)
    ///   reports it.
    ///
    /// It is idempotent, and always writes the parent: call it again. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing stored: [`NotFound`] when the parent does not exist, [`NotMigrated`] when it embeds children that
    /// are [not migrated](Self::migrate_from_embedded), [`ChildNotFound`] when it has no such child,
    /// [`InvalidArgument`] when there is nothing to change, a field cannot be changed or is named twice, a field of the
    /// order would become an array, or an id is invalid, and [`IndexMissing`]. If the outcome is unknown, call it
    /// again.
    pub fn update(&self, parent: impl IntoId, child_id: impl IntoId, set: Document) -> Update<'_> {
        Update {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            child: DocumentId::new(child_id),
            set,
            unset: Vec::new(),
            session: None,
        }
    }
}

action! {
    /// Sets fields of a child; returned by [`SubsetRepository::update`].
    pub struct Update<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        child: Result<DocumentId>,
        set: Document,
        unset: Vec<String>,
    }
    with session;
    "update" => UpdatedChild
}

impl Update<'_> {
    /// Removes fields of the child.
    pub fn unset<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.unset.extend(fields.into_iter().map(Into::into));
        self
    }

    async fn execute(self) -> Result<UpdatedChild> {
        let (parent, child) = (self.parent?.into_bson(), self.child?.into_bson());
        let update = checked_update(&self.shared.settings, self.set, self.unset)?;
        let write = Write::of_child(self.shared, parent, child, Change::Update(update.into()));
        Ok(write::run(write, self.session).await?.into())
    }
}
