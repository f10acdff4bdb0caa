use mongo_patterns_core::update::failed;
use mongodb::options::UpdateModifications;

use super::prelude::*;
use crate::form::update::checked_update;

impl<P, C> SubsetRepository<P, C> {
    /// Updates a child by [operators](#operators) or a pipeline, and writes its parent. If a field of the order changes, the
    /// child may enter or leave the subset.
    ///
    /// ```no_run
    /// # use mongodb::bson::doc;
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// products.update(1, 786, doc! { "$set": { "review_text": "Still amazing." }, "$unset": { "draft": "" } }).await?;
    /// products.update(1, 786, doc! { "$inc": { "helpful_votes": 1 } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Operators
    /// `$set`, `$unset`, `$inc`, `$mul`, `$min`, `$max`, `$currentDate`, `$push`, `$pull` and `$addToSet`, with MongoDB's
    /// meanings. The server applies them in one atomic command: concurrent increments all count, and the subset follows the
    /// stored result. As in the driver, a document with `$each` in a `$push` or `$addToSet` is a modifier, and the value of a
    /// `$pull` is a condition.
    ///
    /// A pipeline is a `Vec` of stages, each `$set` (or `$addFields`) or `$unset`. Its expressions are the caller's: wrap
    /// untrusted values in `$literal`.
    ///
    /// Refused, with nothing sent: a document without operators, other operators and stages, positional paths, and two paths
    /// of which one contains the other. So are the parent and the id of a child, which cannot be changed: delete it, and
    /// insert it again. A field of the order or of a computed field cannot become an array.
    ///
    /// An update with `$inc`, `$mul` or `$push`, or with a pipeline that reads what it writes, is not idempotent.
    ///
    /// - [`Transactional`](crate::Consistency::Transactional): both in one transaction.
    /// - [`Eventual`](crate::Consistency::Eventual): the child first. If the child is written and the write of its
    ///   parent fails, [`stored_count`](Error::stored_count) of the error is 1. Then call [`rebuild`](Self::rebuild), or the
    ///   update again if it is idempotent.
    ///
    /// # Cost
    /// Four round trips, and up to seven more while other processes write to the parent. In a transaction also four, if
    /// this repository has written the parent in a transaction before, without a conflict, and otherwise five, as with a
    /// [total](crate::SubsetRepositoryBuilder::total_field) or [computed
    /// fields](crate::SubsetRepositoryBuilder#computed-fields). Each examines one document, except the read of the first
    /// children, which examines as many as are embedded.
    ///
    /// # Cancel safety
    /// - `Transactional`: it has no effect, unless its commit had begun, which completes.
    /// - `Eventual`: the child may be changed and its parent not be written. The subset is then stale until the next
    ///   write to the parent, or until [`rebuild`](Self::rebuild) or [`repair`](Self::repair); [`verify`](Self::verify)
    ///   reports it.
    ///
    /// It always writes the parent: call it again if the update is idempotent, and otherwise read the child first, or call
    /// `rebuild`. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing stored: [`NotFound`] when the parent does not exist, [`NotMigrated`] when it embeds children that
    /// are [not migrated](Self::migrate_from_embedded), [`ChildNotFound`] when it has no such child,
    /// [`InvalidArgument`] for the refused updates above, for one that does not suit the stored child, such as `$inc` of a
    /// text, or for an invalid id, and [`IndexMissing`]. If the outcome is unknown, call an idempotent update again.
    pub fn update(
        &self,
        parent: impl IntoId,
        child_id: impl IntoId,
        update: impl Into<UpdateModifications>,
    ) -> Update<'_> {
        Update::create(
            self.shared(),
            DocumentId::new(parent),
            DocumentId::new(child_id),
            update.into(),
        )
    }
}

action! {
    /// Updates a child; returned by [`SubsetRepository::update`].
    pub struct Update<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        child: Result<DocumentId>,
        update: UpdateModifications,
    }
    with session;
    "update" => UpdatedChild
}

impl Update<'_> {
    async fn execute(self) -> Result<UpdatedChild> {
        let (parent, child) = (self.parent?.into_bson(), self.child?.into_bson());
        let update = checked_update(&self.shared.settings, self.update)?;
        let write = Write::of_child(self.shared, parent, child, Change::Update(update));
        let written = write::run(write, self.session).await;
        Ok(written.map_err(failed)?.into())
    }
}
