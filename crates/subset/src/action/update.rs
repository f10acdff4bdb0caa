use mongo_patterns_core::update::failed;
use mongodb::options::UpdateModifications;

use super::prelude::*;
use crate::form::update::checked_update;

impl<P, C> SubsetRepository<P, C> {
    /// Updates a child by [operators](#operators) or a pipeline, and writes its parent, in one transaction. If a field of the
    /// order changes, the child may enter or leave the subset.
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
    /// Refused, with nothing sent: a document without operators, other operators and stages, positional operators in
    /// paths (`$`, `$[]`, `$[x]`), and two paths of which one contains the other. So are the parent and the id of a child,
    /// which cannot be changed: delete it, and insert it again. A field of the order or of a computed field cannot become an array.
    ///
    /// An update with `$inc`, `$mul` or `$push`, or with a pipeline that reads what it writes, is not idempotent.
    ///
    /// # Cost
    /// Four round trips, if this repository has written the parent before, without a conflict. Otherwise five, and with a
    /// [total](crate::SubsetRepositoryBuilder::total_field) or [computed
    /// fields](crate::SubsetRepositoryBuilder#computed-fields) also. Each examines one document, except the read of the first
    /// children, which examines as many as are embedded.
    ///
    /// # Cancel safety
    /// It has no effect, unless its commit had begun, which completes. Call it again if the update is idempotent, and
    /// otherwise read the child first. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing stored: [`NotFound`] when the parent does not exist, [`NotMigrated`] when it embeds children that
    /// are [not migrated](Self::migrate_from_embedded), [`ChildNotFound`] when it has no such child,
    /// [`InvalidArgument`] for the refused updates above, for one that does not suit the stored child, such as `$inc` of a
    /// text, or for an invalid id, [`IndexMissing`], and [`Unsupported`] on a standalone. If the outcome is unknown, call an
    /// idempotent update again.
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
