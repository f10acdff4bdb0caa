use mongodb::options::UpdateModifications;

use super::prelude::*;
use crate::form::update::SourceUpdate;
use crate::write::source;

impl<D, S> ReferenceRepository<D, S> {
    /// Updates a source by [operators](#operators), and then all of its copies. When it returns, every copy has this version
    /// of the source or a newer one.
    ///
    /// ```no_run
    /// # use mongo_patterns_reference::ReferenceRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let updated = orders.update_source(456, doc! { "$set": { "name": "Ann" } }).await?;
    /// println!("version {}, {} copies", updated.version, updated.copies_updated);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Operators
    /// `$set`, `$unset`, `$inc`, `$mul`, `$min`, `$max`, `$currentDate`, `$push`, `$pull` and `$addToSet`, with MongoDB's
    /// meanings. The server applies them in one atomic command.
    ///
    /// Refused, with nothing sent: a document without operators, other operators, a pipeline, positional operators in paths
    /// (`$`, `$[]`, `$[x]`), two paths of which one contains the other, and changes of the version or `_id`.
    ///
    /// # Cost
    /// One round trip for the source, and one for each reference whose copies follow it, which examines only outdated copies.
    /// On a router two for each reference: the second one reads whether the documents of a moving chunk are left.
    /// The server yields between the documents, so another writer of one of them waits for one document, and not for
    /// the whole update: on two cores, 100,000 copies took 1.5 seconds, and the slowest concurrent update of one of the
    /// documents 0.1 seconds. One round trip in all for an update that cannot change a copied field. The first update of a
    /// repository has one more for each referring collection, which checks the indexes.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller, the source and all copies are updated in it, which suits a few copies: other writers
    /// of these documents conflict with it. An [insert](Self::insert) outside of the transaction does not see its update:
    /// call [`sweep`](Self::sweep) for the source after the commit. An insert in another transaction conflicts with it.
    ///
    /// # Cancel safety
    /// The source can be updated, and some of the copies. [`sweep`](Self::sweep) for the source updates the rest. A
    /// [transaction of the caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`], [`InvalidArgument`] for the refused updates above, for one that does not suit the
    /// stored source, such as `$inc` of a text, or for an invalid id, [`TooLarge`] when the source would exceed 16 MiB,
    /// [`DuplicateKey`] by a unique index of your own, and [`IndexMissing`].
    ///
    /// After an error with a [`stored_count`](mongo_patterns_core::Error::stored_count) of 1 the source is updated, and some
    /// of its copies may be outdated.
    pub fn update_source(&self, source: impl IntoId, update: impl Into<UpdateModifications>) -> UpdateSource<'_> {
        let shared = self.shared();
        let update = SourceUpdate::new(&shared.settings, update.into());
        UpdateSource::create(shared, DocumentId::new(source), update)
    }
}

action! {
    /// Updates a source; returned by [`ReferenceRepository::update_source`].
    pub struct UpdateSource<'a> {
        shared: &'a Shared,
        source: Result<DocumentId>,
        update: Result<SourceUpdate>,
    }
    with session;
    "update_source" => SourceUpdated
}

impl UpdateSource<'_> {
    async fn execute(self) -> Result<SourceUpdated> {
        let id = self.source?.into_bson();
        source::update(self.shared, &id, &self.update?, self.session).await
    }
}
