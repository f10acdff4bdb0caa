#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{AlreadyExists, Corrupt, InvalidArgument, NotMigrated};
use mongo_patterns_core::{Result, action};
use mongodb::bson::{Document, doc};
use serde::Serialize;

use crate::form::document::{Encoded, encode};
use crate::form::update::checked_with;
use crate::repository::{HistoryRepository, Shared};
use crate::results::Recorded;
use crate::write;

impl<D: Serialize> HistoryRepository<D> {
    /// Inserts a document, as [`insert`](Self::insert) does, or replaces the document with its id, as
    /// [`replace`](Self::replace) does. Each call that succeeds stores one revision.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(policies: HistoryRepository<Document>) -> mongo_patterns::Result<()> {
    /// let policy = doc! { "policyId": 1, "customerName": "Michelle", "itemsInsured": ["car"] };
    /// let recorded = policies.upsert(&policy).await?;
    /// println!("revision {}, which is 1 for a new policy", recorded.revision);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It overwrites changes that others have made. Their revisions remain. Fields that other repositories
    /// [own](mongo_patterns_core::catalog#owners) in a stored document stay as they are. A document that was deleted
    /// continues after the revision of its deletion.
    ///
    /// # Cost
    /// Three round trips for a document that exists, and six for a new one. Each examines at most one document. The first
    /// write of a repository has three more. It shares no transaction with other calls: see [lanes](crate#lanes).
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. A repeated call stores another revision, with the same content.
    ///
    /// # Errors
    /// - The errors of [`insert`](Self::insert) without [`AlreadyExists`].
    /// - [`NotMigrated`]: the stored document has no revision.
    /// - [`Corrupt`]: the number or the time of the document or of its newest revision is invalid.
    pub fn upsert(&self, document: &D) -> Upsert<'_> {
        let shared = self.shared();
        Upsert::create(shared, encode(&shared.settings, document), Document::new())
    }
}

action! {
    /// Inserts or replaces a document; returned by [`HistoryRepository::upsert`].
    pub struct Upsert<'a> {
        shared: &'a Shared,
        document: Result<Encoded>,
        with: Document,
    }
    with session;

    /// Describes the change, by values of the [fields that describe a
    /// change](crate::HistoryRepositoryBuilder::change_fields). Each call replaces them. Other fields are refused with
    /// [`InvalidArgument`].
    with(fields: Document) => with = fields;

    "upsert" => Recorded
}

impl Upsert<'_> {
    async fn execute(self) -> Result<Recorded> {
        let mut encoded = self.document?;
        encoded.with = checked_with(&self.shared.settings, self.with)?;
        write::upsert::upsert(self.shared, &encoded, self.session).await
    }
}
