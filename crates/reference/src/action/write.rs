//! The calls that write.

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{AlreadyExists, Corrupt, InvalidArgument, NotFound, SettingsMismatch};
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
    /// Each reference field of the document has a document with the `_id` of a source, or an array of such documents. A
    /// missing or null field is no reference. The repository sets the copied fields and the version, and keeps further
    /// fields, such as the quantity of a product.
    ///
    /// With a [source key](crate::ReferenceRepositoryBuilder::source_key), such as `username`, the field has its value, or a
    /// document with it: `author: "ann"` or `author: { username: "ann" }`. If the document also has an `_id`, it must be the
    /// source's.
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
    /// Four round trips in a transaction of the caller: two writes that change nothing lock the sources. Another transaction
    /// that inserts a document with the same source waits or conflicts.
    ///
    /// # Cancel safety
    /// The document can be stored, and its copies can be outdated, if a source was updated concurrently:
    /// [`repair`](Self::repair) corrects them. Call it again: `AlreadyExists` means that the document is stored. Without an
    /// `_id`, a retry can store it twice.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a reference field has another value than a reference, or an array refers to a source twice.
    /// - [`NotFound`]: a source does not exist, or was deleted concurrently. With a source key, also if the `_id` is of
    ///   another source.
    /// - [`AlreadyExists`]: there is a document with this `_id`.
    /// - [`Corrupt`]: the version of a source is not an integer.
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

    /// Inserts documents with copies of their sources: all or none, in one transaction.
    ///
    /// The server ends the transaction after 60 seconds: insert thousands of documents in several calls.
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
    /// Five round trips, or two without references, and one for each further 1000 sources or 48 MB of documents.
    ///
    /// # Sessions and transactions
    /// Other transactions that lock one of the sources, and updates of it, wait or conflict. The call retries after a
    /// conflict, except in a transaction of the caller.
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. Call it again: `AlreadyExists` means that all are stored, or some by
    /// another call. Without an `_id`, a retry can store one twice.
    ///
    /// # Errors
    /// - The errors of [`insert`](Self::insert), for any of the documents.
    /// - [`AlreadyExists`]: also if two of the documents have the same `_id`.
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
    /// [All calls](mongo_patterns_core::action#operators) have the same operators.
    ///
    /// A pipeline, a change of the version or `_id`, and a document or an array as the [source
    /// key](crate::ReferenceRepositoryBuilder::source_key), are refused.
    ///
    /// # Cost
    /// One round trip for the source, and one or two for each reference whose copies follow it, twice as many on a router.
    /// One in all for an update that cannot change a copied field. The server examines and writes all copies, and yields
    /// between them: on two cores, 100,000 copies took 1.5 seconds, and the slowest concurrent update of one of the
    /// documents 0.1 seconds. The first update of a repository checks the indexes and the
    /// [owners](mongo_patterns_core::catalog#owners).
    ///
    /// # Sessions and transactions
    /// In a transaction of the caller, the source and all copies are updated in it, which suits a few copies: other writers
    /// of these documents conflict. An [insert](Self::insert) outside of the transaction does not see its update: call
    /// [`refresh_copies`](Self::refresh_copies) after the commit.
    ///
    /// # Cancel safety
    /// The source can be updated, and some of the copies. [`refresh_copies`](Self::refresh_copies) updates the rest.
    ///
    /// # Errors
    /// - [`NotFound`]: there is no such source.
    /// - [`InvalidArgument`]: a refused update, or an update that does not suit the stored source, such as `$inc` of a text.
    /// - [`SettingsMismatch`]: the version of the sources is the revision of a history, which alone writes them.
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

    /// Updates all copies of a source after a change by another pattern's repository, the driver, or another program. Call
    /// it after the change, or in the same transaction.
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
    /// It increments the version of the source, so that a concurrent insert, which has read the source before its change,
    /// updates its own copy. A replacement of a source should keep its version: a concurrent insert can keep an outdated
    /// copy otherwise.
    ///
    /// It also removes the mark `deleted` from copies whose source was restored, or inserted again.
    // proof: together::kept::a_source_whose_copies_were_kept_is_restored,
    // together::kept::a_refresh_beside_a_deletion_leaves_the_marks_of_the_copies
    ///
    /// For [sources with a history](crate::ReferenceRepositoryBuilder::version_field), it updates copies of older revisions,
    /// and leaves the source as it is.
    ///
    /// # Cost
    /// As an [`update_source`](Self::update_source) of a copied field, and for each reference two round trips more. One
    /// reads all copies of the source. All copies are written.
    ///
    /// # Sessions and transactions
    /// As for [`update_source`](Self::update_source). In the transaction that changes the source, a crash leaves both
    /// undone.
    ///
    /// # Cancel safety
    /// The version can be incremented, and some of the copies updated. Call it again.
    ///
    /// # Errors
    /// - [`NotFound`]: there is no such source.
    /// - [`Corrupt`]: the version of the source is not a number.
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
