//! The calls that write.

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{
    AlreadyExists, Contention, Corrupt, DuplicateKey, Encode, IndexMismatch, IndexMissing, InvalidArgument, NotFound,
    SettingsMismatch, TooLarge, Unsupported,
};
use mongo_patterns_core::action::Write;
use mongo_patterns_core::{DocumentId, Inserted, IntoId, Result};
use mongodb::options::UpdateModifications;
use serde::Serialize;

use crate::form::document::Encoded;
use crate::form::update::SourceUpdate;
use crate::repository::ReferenceRepository;
use crate::results::UpdatedSource;
use crate::write;
use crate::write::source;

impl<D: Serialize, S> ReferenceRepository<D, S> {
    /// Inserts a document with copies of its sources.
    ///
    /// Each reference field of the document has a document with the `_id` of a source, or an array of such documents. It may
    /// also be missing or null, for no reference. The repository sets the copied fields and the version, whatever the
    /// document has in them, and keeps further fields, such as the quantity of a product.
    ///
    /// With a [source key](crate::ReferenceRepositoryBuilder::source_key), such as `username`, the field has its value, or a
    /// document with it: `author: "ann"` or `author: { username: "ann" }`. The document can have an `_id` too, which must be
    /// that of the source then.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::{Bson, Document, doc};
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let order = doc! { "_id": 1, "total": 42.5, "customer": { "_id": 456 } };
    /// let inserted = orders.insert(&order).await?; // with the name and the address of the customer
    /// assert_eq!(inserted.id, Bson::from(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Three round trips: the sources, the insert, and the sources again. One without references. One more for each copy
    /// whose source was updated in between.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller four: the sources are locked by two writes that change nothing, and not read again.
    /// Another transaction that inserts a document with the same source waits or conflicts.
    ///
    /// # Cancel safety
    /// The document can be stored. Its copies can be outdated then, if a source was updated or deleted concurrently:
    /// [`repair`](Self::repair) corrects them. Call it again: `AlreadyExists` means that the
    /// document is stored. Without an `_id`, a retry can store it twice. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing sent: [`Encode`], [`InvalidArgument`] when its `_id` has an invalid type, when a reference field has
    /// another value than a reference, or when an array refers to a source twice, and [`TooLarge`].
    ///
    /// With nothing stored: [`NotFound`] when a source does not exist, or was deleted concurrently, [`AlreadyExists`] when
    /// there is a document with this `_id`, [`DuplicateKey`] by a unique index of your own, [`TooLarge`] when the document
    /// exceeds 16 MiB with its copies, [`Corrupt`] when the version of a source is not an integer, and, for a source key,
    /// [`IndexMissing`], [`IndexMismatch`], and [`NotFound`] also when the `_id` beside it is that of another source.
    ///
    /// After an error with a [`stored_count`](mongo_patterns_core::Error::stored_count) of 1 the document is stored, and its
    /// copies can be outdated.
    pub fn insert(&self, document: &D) -> Write<'_, Inserted> {
        let shared = self.shared();
        let document = Encoded::new(&shared.settings, document);
        Write::new(shared.operation("insert"), async move |session| {
            write::insert::insert(shared, &document?, session).await
        })
    }

    /// Inserts documents with copies of their sources: all or none, in one transaction. The server ends it after 60 seconds:
    /// insert thousands of documents in several calls.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let order = |id: i32| doc! { "_id": id, "customer": { "_id": 456 } };
    /// let inserted = orders.insert_many(&[order(1), order(2)]).await?;
    /// assert_eq!(inserted.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Five round trips, or two without references: the sources are locked by two writes that change nothing and read once,
    /// the documents are inserted, and the transaction commits. One more for each further 1000 sources or 48 MB of documents.
    ///
    /// # Sessions and transactions
    /// Other transactions that lock one of the sources, and updates of it, wait or conflict. A conflict is retried, but in a
    /// transaction of the caller.
    ///
    /// # Cancel safety
    /// It has no effect, unless its commit had begun, which completes. Call it again: `AlreadyExists` means that all are
    /// stored, or some by another call. Without an `_id`, a retry can store one twice.
    ///
    /// # Errors
    /// With nothing stored: those of [`insert`](Self::insert), for any of the documents. [`AlreadyExists`] also when two of
    /// them have the same `_id`, [`Contention`], and [`Unsupported`] on a standalone.
    pub fn insert_many(&self, documents: &[D]) -> Write<'_, Vec<Inserted>> {
        let shared = self.shared();
        let documents = documents
            .iter()
            .map(|document| Encoded::new(&shared.settings, document));
        let documents = documents.collect::<Result<Vec<_>>>();
        Write::new(shared.operation("insert_many"), async move |session| {
            write::insert::insert_many(shared, &documents?, session).await
        })
    }
}

impl<D, S> ReferenceRepository<D, S> {
    /// Updates a source by [operators](#operators), and then all of its copies. When it returns, every copy has this version
    /// of the source or a newer one.
    ///
    /// ```no_run
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// let updated = orders.update_source(456, doc! { "$set": { "name": "Ann" } }).await?;
    /// println!("version {}, {} copies", updated.version, updated.copies);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Operators
    /// `$set`, `$unset`, `$inc`, `$mul`, `$min`, `$max`, `$currentDate`, `$push`, `$pull` and `$addToSet`, with MongoDB's
    /// meanings. The server applies them in one atomic command.
    ///
    /// Refused, with nothing sent: a document without operators, other operators, a pipeline, positional operators in paths
    /// (`$`, `$[]`, `$[x]`), two paths of which one contains the other, changes of the version or `_id`, and a document or an
    /// array as the [source key](crate::ReferenceRepositoryBuilder::source_key).
    ///
    /// # Cost
    /// One round trip for the source, and one for each reference whose copies follow it, which examines all copies of the source.
    /// One more for each reference that is not in the last referring collection, which looks for documents that an archive moves.
    /// On a router two for each: the second one reads whether the documents of a moving chunk are left.
    /// The server yields between the documents, so another writer of one of them waits for one document, and not for
    /// the whole update: on two cores, 100,000 copies took 1.5 seconds, and the slowest concurrent update of one of the
    /// documents 0.1 seconds. One round trip in all for an update that cannot change a copied field. The first update of a
    /// repository has one more for each referring collection, which checks the indexes, and one more, which reads the
    /// [owners](mongo_patterns_core::catalog#owners), unless it has called `ensure_indexes`.
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller, the source and all copies are updated in it, which suits a few copies: other writers
    /// of these documents conflict with it. An [insert](Self::insert) outside of the transaction does not see its update:
    /// call [`refresh_copies`](Self::refresh_copies) after the commit. An insert in another transaction conflicts with it.
    ///
    /// # Cancel safety
    /// The source can be updated, and some of the copies. [`refresh_copies`](Self::refresh_copies) updates the rest.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`], [`InvalidArgument`] for the refused updates above, for one that does not suit the
    /// stored source, such as `$inc` of a text, or for an invalid id, [`TooLarge`] when the source would exceed 16 MiB,
    /// [`DuplicateKey`] by a unique index of your own, [`IndexMissing`], and [`SettingsMismatch`] for sources whose version is
    /// the revision of a history, which alone writes them.
    ///
    /// After an error with a [`stored_count`](mongo_patterns_core::Error::stored_count) of 1 the source is updated, and some
    /// of its copies may be outdated.
    pub fn update_source(
        &self,
        source: impl IntoId,
        update: impl Into<UpdateModifications>,
    ) -> Write<'_, UpdatedSource> {
        let shared = self.shared();
        let (source, update) = (DocumentId::new(source), update.into());
        Write::new(shared.operation("update_source"), async move |session| {
            let id = source?.into_bson();
            let update = SourceUpdate::new(&shared.settings, &*shared.others_of_update().await?, update)?;
            source::update(shared, &id, &update, session).await
        })
    }

    /// Updates all copies of a source that something else has changed: another pattern's repository, the driver, or another
    /// program. Call it after the change, or in the same transaction.
    ///
    /// ```no_run
    /// # use mongo_patterns::embedded::EmbeddedRepository;
    /// # use mongo_patterns::reference::ReferenceRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(customers: EmbeddedRepository<Document, Document>, orders: ReferenceRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// customers.update_child(456, "home", doc! { "$set": { "city": "Dublin" } }).await?;
    /// orders.refresh_copies(456).await?; // of `addresses`
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It increments the version of the source, above that of its copies, so that an insert which has read the source before
    /// its change updates its own copy. That makes it safe for concurrent writers. A replacement of a source should keep its version: an insert
    /// that runs at the same moment as one without it can keep an outdated copy.
    ///
    /// It also removes the mark `deleted` from copies whose source was restored, or inserted again.
    // proof: together::kept::a_source_whose_copies_were_kept_is_restored,
    // together::kept::a_refresh_beside_a_deletion_leaves_the_marks_of_the_copies
    ///
    /// For sources with a history, see [the version field](crate::ReferenceRepositoryBuilder::version_field), it updates copies
    /// of older revisions, and leaves the source as it is.
    ///
    /// # Cost
    /// That of an [`update_source`](Self::update_source) of a copied field, and for each reference one round trip more, which
    /// looks for marks, and one that reads all copies of the source. All copies are written.
    ///
    /// # Sessions and transactions
    /// As of [`update_source`](Self::update_source). In the transaction that changes the source, a crash leaves both undone.
    ///
    /// # Cancel safety
    /// The version can be incremented, and some of the copies updated. Call it again.
    ///
    /// # Errors
    /// With nothing changed: [`NotFound`], [`InvalidArgument`] for an invalid id, [`Corrupt`] when the version of the source is
    /// not a number, and [`IndexMissing`].
    ///
    /// After an error with a [`stored_count`](mongo_patterns_core::Error::stored_count) of 1 the version is incremented, and
    /// some of the copies may be outdated.
    pub fn refresh_copies(&self, source: impl IntoId) -> Write<'_, UpdatedSource> {
        let (shared, source) = (self.shared(), DocumentId::new(source));
        Write::new(shared.operation("refresh_copies"), async move |session| {
            let id = source?.into_bson();
            source::update(shared, &id, &SourceUpdate::of_version(), session).await
        })
    }
}
