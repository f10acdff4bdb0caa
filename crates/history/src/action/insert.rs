#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{AlreadyExists, DuplicateKey, InvalidArgument};
use mongo_patterns_core::{Result, action};
use mongodb::bson::{Document, doc};
use serde::Serialize;

use crate::form::document::{Encoded, encode};
use crate::form::update::checked_with;
use crate::repository::{HistoryRepository, Shared};
use crate::results::Recorded;
use crate::write;

impl<D: Serialize> HistoryRepository<D> {
    /// Inserts a document, and stores its revision 1. A document that was deleted continues after the revision of its
    /// deletion.
    ///
    /// The repository sets the revision and the time, whatever the document has in these fields.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns::Result<()> {
    /// let policy = doc! { "policyId": 1, "customerName": "Michelle", "itemsInsured": ["golf clubs", "car"] };
    /// let recorded = policies.insert(&policy).await?;
    /// assert_eq!(recorded.revision, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Four round trips. Each examines at most one document. The first write of a repository has three more.
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. Call it again: `AlreadyExists` means that the document is stored.
    ///
    /// # Errors
    /// - [`AlreadyExists`]: there is a document with this id.
    /// - [`DuplicateKey`]: its `_id` is used, or a unique index of the application refuses it.
    /// - [`InvalidArgument`]: the document has no valid id, or a field that the pattern uses for itself, such as `deleted`,
    ///   or a field that describes the change.
    pub fn insert(&self, document: &D) -> Insert<'_> {
        let shared = self.shared();
        Insert::create(shared, encode(&shared.settings, document), Document::new())
    }

    /// Inserts documents, and stores the revision 1 of each: all or none, in one transaction.
    ///
    /// Documents that were deleted continue after the revision of their deletion. The server ends the transaction after 60
    /// seconds: insert thousands of documents in several calls.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns::Result<()> {
    /// let recorded = policies.insert_many(&[doc! { "policyId": 1 }, doc! { "policyId": 2 }]).await?;
    /// assert_eq!(recorded[1].revision, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Returns the revisions in the order of the documents.
    ///
    /// # Cost
    /// Five round trips for any number of documents, and more beyond 48 MB. The first write of a repository has three more.
    /// Of documents that were deleted, the server reads all revisions.
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. Call it again: `AlreadyExists` means that all are stored, or some by
    /// another call.
    ///
    /// # Errors
    /// - The errors of [`insert`](Self::insert), for any of the documents.
    /// - [`AlreadyExists`]: also if two of the documents have the same id.
    pub fn insert_many(&self, documents: &[D]) -> InsertMany<'_> {
        let shared = self.shared();
        let documents = documents.iter().map(|document| encode(&shared.settings, document));
        InsertMany::create(shared, documents.collect(), Document::new())
    }
}

action! {
    /// Inserts a document; returned by [`HistoryRepository::insert`].
    pub struct Insert<'a> {
        shared: &'a Shared,
        document: Result<Encoded>,
        with: Document,
    }
    with session;

    /// Describes the insert, by values of the [fields that describe a
    /// change](crate::HistoryRepositoryBuilder::change_fields). Each call replaces them. Other fields are refused with
    /// [`InvalidArgument`].
    with(fields: Document) => with = fields;

    "insert" => Recorded
}

action! {
    /// Inserts documents; returned by [`HistoryRepository::insert_many`].
    pub struct InsertMany<'a> {
        shared: &'a Shared,
        documents: Result<Vec<Encoded>>,
        with: Document,
    }
    with session;

    /// Describes each of the inserts, as [`Insert::with`] does one.
    with(fields: Document) => with = fields;

    "insert_many" => Vec<Recorded>
}

impl InsertMany<'_> {
    async fn execute(self) -> Result<Vec<Recorded>> {
        let mut documents = self.documents?;
        let with = checked_with(&self.shared.settings, self.with)?;
        documents.iter_mut().for_each(|document| document.with = with.clone());
        write::insert_many::insert_many(self.shared, documents, self.session).await
    }
}

impl Insert<'_> {
    async fn execute(self) -> Result<Recorded> {
        let mut encoded = self.document?;
        encoded.with = checked_with(&self.shared.settings, self.with)?;
        write::insert::insert(self.shared, &encoded, self.session).await
    }
}
