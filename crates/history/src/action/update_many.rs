#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::InvalidArgument;
use mongo_patterns_core::update::failed;
use mongo_patterns_core::{Result, action};
use mongodb::bson::{Document, doc};
use mongodb::options::UpdateModifications;

use crate::form::update::{checked, checked_with};
use crate::query::change::Change;
use crate::repository::{HistoryRepository, Shared};
use crate::results::UpdatedMany;
use crate::write::change::Request;
use crate::write::update_many::update_many;

impl<D> HistoryRepository<D> {
    /// Updates all current documents that match a filter, as [`update`](Self::update) does one: each is a transaction and a
    /// revision of its own.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # async fn f(policies: HistoryRepository<()>) -> mongo_patterns::Result<()> {
    /// let expired = doc! { "status": "active", "until": { "$lt": "2026-01-01" } };
    /// let updated = policies.update_many(expired, doc! { "$set": { "status": "expired" } }).await?;
    /// println!("{} of {} policies", updated.modified, updated.matched);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An empty filter matches all documents. `$where`, `$text` and `$near` are refused. It takes no session: in a
    /// transaction of yours, [`find`](Self::find) the documents, and [`update`](Self::update) each.
    ///
    /// # Guarantees
    /// A document is updated at most once. The filter is also part of each update: a document that does not match any more
    /// stays as it is, and is counted in [`matched`](UpdatedMany::matched) alone. A document that begins to match during the
    /// call can be missed.
    ///
    /// # Cost
    /// One round trip that checks the filter, one for each batch of ids, and an [`update`](Self::update) for each document,
    /// of four documents concurrently. An index of your own serves the filter.
    ///
    /// # Cancel safety
    /// Some of the documents are updated, each with its revision. A repeated call updates the documents that match the
    /// filter, also a second time. If the update ends the match, as above, it is safe to repeat.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: the server refuses the filter, or [`update`](Self::update) the update. Nothing is changed.
    /// - The errors of [`update`](Self::update) for a document, which end the call.
    ///   [`document_id`](mongo_patterns_core::Error::document_id) names the document, and
    ///   [`stored_count`](mongo_patterns_core::Error::stored_count) is the number of updated documents, which stay updated.
    pub fn update_many(&self, filter: Document, update: impl Into<UpdateModifications>) -> UpdateMany<'_> {
        UpdateMany::create(self.shared(), filter, update.into(), Document::new())
    }
}

action! {
    /// Updates the documents of a filter; returned by [`HistoryRepository::update_many`].
    pub struct UpdateMany<'a> {
        shared: &'a Shared,
        filter: Document,
        update: UpdateModifications,
        with: Document,
    }

    /// Describes each of the updates, as [`Update::with`](super::Update::with) does one.
    with(fields: Document) => with = fields;

    "update_many" => UpdatedMany
}

impl UpdateMany<'_> {
    async fn execute(self) -> Result<UpdatedMany> {
        let request = Request {
            change: Change::Update(checked(
                &self.shared.settings,
                &*self.shared.others_of_update().await?,
                self.update,
            )?),
            expected: None,
            filter: self.filter,
            with: checked_with(&self.shared.settings, self.with)?,
        };
        update_many(self.shared, &request).await.map_err(failed)
    }
}
