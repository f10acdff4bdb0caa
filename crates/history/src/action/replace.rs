use std::sync::Arc;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::InvalidArgument;
use mongo_patterns_core::{DocumentId, IntoId, Result, action};
use mongodb::bson::{Bson, Document};
use serde::Serialize;

use crate::form::document::encode_replacement;
use crate::form::update::checked_with;
use crate::query::change::Change;
use crate::repository::{HistoryRepository, Shared};
use crate::results::Recorded;
use crate::write::change::Request;
use crate::write::joined::change;

impl<D: Serialize> HistoryRepository<D> {
    /// Replaces the content of the current document, and stores it as a new revision, also if it equals the previous one.
    ///
    /// The document keeps its id and its `_id`, and the repository sets the revision and the time.
    ///
    /// ```no_run
    /// # use mongo_patterns::history::HistoryRepository;
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Policy { items: Vec<String> }
    /// # async fn f(policies: HistoryRepository<Policy>) -> mongo_patterns::Result<()> {
    /// if let Some(mut current) = policies.get(1).await? {
    ///     current.document.items.retain(|item| item != "car");
    ///     // An error if somebody else has changed it since the read.
    ///     policies.replace(1, &current.document).expecting(current.revision).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Fields that other repositories [own](mongo_patterns_core::catalog#owners) stay as they are, whatever the new document
    /// has in them.
    ///
    /// Without [`expecting`](Replace::expecting), it overwrites changes that others have made since you read the document.
    /// Their revisions remain.
    ///
    /// # Cost
    /// As [`update`](Self::update). A repository whose `ensure_indexes()` was not called needs one more once.
    ///
    /// # Cancel safety
    /// As [`update`](Self::update).
    ///
    /// # Errors
    /// - The errors of [`update`](Self::update).
    /// - [`InvalidArgument`]: the document has another id, or a field that the pattern uses for itself, or a field that
    ///   describes the change.
    pub fn replace(&self, id: impl IntoId, document: &D) -> Replace<'_> {
        let shared = self.shared();
        let replacement = DocumentId::new(id).and_then(|id| {
            let document = encode_replacement(&shared.settings, id.value(), document)?;
            Ok((id.into_bson(), document))
        });
        Replace::create(shared, replacement, None, Document::new())
    }
}

action! {
    /// Replaces a document; returned by [`HistoryRepository::replace`].
    pub struct Replace<'a> {
        shared: &'a Arc<Shared>,
        replacement: Result<(Bson, Document)>,
        expected: Option<u64>,
        with: Document,
    }
    with session;

    /// Replaces the document only if it is at this revision (optimistic locking).
    expecting(revision: u64) => expected = Some(revision);

    /// Describes the replacement, by values of the [fields that describe a
    /// change](crate::HistoryRepositoryBuilder::change_fields). Each call replaces them. Other fields are refused with
    /// [`InvalidArgument`].
    with(fields: Document) => with = fields;

    "replace" => Recorded
}

impl Replace<'_> {
    async fn execute(self) -> Result<Recorded> {
        let (id, document) = self.replacement?;
        let request = Request {
            change: Change::Replace(document),
            expected: self.expected,
            filter: Document::new(),
            with: checked_with(&self.shared.settings, self.with)?,
        };
        change(self.shared, id, request, self.session).await
    }
}
