use std::sync::Arc;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, InvalidArgument, NotFound, NotMigrated, RevisionMismatch};
use mongo_patterns_core::update::failed;
use mongo_patterns_core::{DocumentId, IntoId, Result, action};
use mongodb::bson::{Document, doc};
use mongodb::options::UpdateModifications;

use crate::form::update::{checked, checked_with};
use crate::query::change::Change;
use crate::repository::{HistoryRepository, Shared};
use crate::results::Recorded;
use crate::write::change::Request;
use crate::write::joined::change;

impl<D> HistoryRepository<D> {
    /// Updates the current document by [operators](#operators) or a pipeline, and stores the result as a new revision, also
    /// if it equals the previous one.
    ///
    /// ```no_run
    /// # use mongo_patterns::ErrorKind;
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # async fn f(policies: mongo_patterns::history::HistoryRepository<()>) -> mongo_patterns::Result<()> {
    /// let recorded = policies.update(1, doc! { "$push": { "itemsInsured": "watch" } }).await?;
    /// // Only if the document has not been changed since:
    /// let update = doc! { "$pull": { "itemsInsured": "car" } };
    /// match policies.update(1, update).expecting(recorded.revision).await {
    ///     Err(error) if error.kind() == ErrorKind::RevisionMismatch => println!("it was changed, decide again"),
    ///     done => drop(done?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Operators
    /// [All calls](mongo_patterns_core::action#operators) have the same operators.
    ///
    /// A pipeline is a `Vec` of stages, each `$set` (or `$addFields`) or `$unset`. Its expressions are the caller's: wrap
    /// untrusted values in `$literal`.
    ///
    /// Other stages, and changes of the id, the revision, the time, `_id`, or a field that describes the change, are
    /// refused.
    ///
    /// # Cost
    /// Three round trips. Each examines at most one document. One more on a sharded cluster for an update by operators, and
    /// two if the server's clock is behind the time of the document. The first write of a repository has three more.
    /// Concurrent changes of one document share transactions: see [lanes](crate#lanes).
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. With [`expecting`](Update::expecting) it is safe to retry: an update that
    /// took effect is not repeated.
    ///
    /// # Errors
    /// - [`NotFound`]: there is no such document.
    /// - [`RevisionMismatch`]: the document is not at the expected revision.
    /// - [`NotMigrated`]: the document has no revision.
    /// - [`InvalidArgument`]: a refused update, or an update that does not suit the stored document, such as `$inc` of a
    ///   text.
    /// - [`Corrupt`]: the number or the time of the document or of its newest revision is invalid.
    pub fn update(&self, id: impl IntoId, update: impl Into<UpdateModifications>) -> Update<'_> {
        Update::create(self.shared(), DocumentId::new(id), update.into(), None, Document::new())
    }
}

action! {
    /// Updates a document; returned by [`HistoryRepository::update`].
    pub struct Update<'a> {
        shared: &'a Arc<Shared>,
        id: Result<DocumentId>,
        update: UpdateModifications,
        expected: Option<u64>,
        with: Document,
    }
    with session;

    /// Updates the document only if it is at this revision (optimistic locking).
    expecting(revision: u64) => expected = Some(revision);

    /// Describes the update, by values of the [fields that describe a
    /// change](crate::HistoryRepositoryBuilder::change_fields). Each call replaces them. Other fields are refused with
    /// [`InvalidArgument`].
    with(fields: Document) => with = fields;

    "update" => Recorded
}

impl Update<'_> {
    async fn execute(self) -> Result<Recorded> {
        let id = self.id?.into_bson();
        let request = Request {
            change: Change::Update(checked(
                &self.shared.settings,
                &*self.shared.others_of_update().await?,
                self.update,
            )?),
            expected: self.expected,
            filter: Document::new(),
            with: checked_with(&self.shared.settings, self.with)?,
        };
        change(self.shared, id, request, self.session).await.map_err(failed)
    }
}
