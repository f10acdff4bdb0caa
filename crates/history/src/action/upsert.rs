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
    /// Inserts a document, as [`insert`](Self::insert) does, or replaces the one with its id, as [`replace`](Self::replace)
    /// does. Each call that succeeds stores one revision, also if it equals the previous one.
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
    /// It overwrites changes that others have made. Their revisions remain. What other repositories
    /// [own](mongo_patterns_core::catalog#owners) in a document that exists stays as it is. A document that was deleted continues
    /// after the revision of its deletion, with what the new document has.
    ///
    /// # Cost
    /// Three round trips for a document that exists, each of which examines at most one document, as
    /// [`replace`](Self::replace); six for another one: the replacement that finds nothing, the current document, the newest
    /// revision, the insert, its copy, and the commit. The first write of a repository has three more. It shares no transaction
    /// with other calls: see [lanes](crate#lanes).
    ///
    /// # Cancel safety
    /// It has no effect, unless its commit had begun, which completes.
    ///
    /// A repeated call stores another revision, with the same content.
    ///
    /// # Errors
    /// With nothing stored: those of [`insert`](Self::insert) without [`AlreadyExists`], [`NotMigrated`] when the stored
    /// document has no revision, and [`Corrupt`] when the number or the time of one of the two is
    /// invalid.
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
    /// change](crate::HistoryRepositoryBuilder::change_fields). Each call replaces them, and one without them removes
    /// them. Other fields are refused with [`InvalidArgument`].
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
