use std::sync::Arc;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{InvalidArgument, NotFound, SettingsMismatch};
use mongo_patterns_core::through::{self, Deletes, Place};
use mongo_patterns_core::{DocumentId, ErrorKind, IntoId, Result, action, transaction};
use mongodb::bson::Document;

use crate::form::update::checked_with;
use crate::query::change::Change;
use crate::repository::{HistoryRepository, Shared};
use crate::results::DeletedDocument;
use crate::through::delete_through;
use crate::write::change::Request;
use crate::write::joined::change;

impl<D> HistoryRepository<D> {
    /// Deletes the current document, and stores the deletion as a revision without content. The history remains.
    ///
    /// The revision keeps the fields that other repositories [own](mongo_patterns_core::catalog#owners), for a
    /// [`restore`](Self::restore).
    // proof: together::deleted::a_deleted_document_is_restored_with_what_others_had_at_its_deletion, together::deleted::a_document_on_which_others_depend_is_deleted_by_their_call
    ///
    /// ```no_run
    /// # async fn f(policies: mongo_patterns::history::HistoryRepository<()>) -> mongo_patterns::Result<()> {
    /// let deleted = policies.delete(1).await?;
    /// if let Some(revision) = deleted.revision {
    ///     policies.restore(1, revision - 1).await?; // as revision + 1
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Through a trash
    /// [`through`](Delete::through) a trash, which keeps the document as it is before the deletion. A restored document
    /// continues after the number of the deletion.
    // proof: together::histories::a_document_with_a_history_is_kept_by_a_trash,
    // together::histories::a_deletion_through_a_trash_has_four_round_trips_more
    ///
    /// # Cost
    /// Four round trips. Each examines at most one document. The first write of a repository has three or four more. Through
    /// a trash four more.
    ///
    /// # Cancel safety
    /// It has an effect as a whole or not at all. Call it again: it finds nothing if it took effect.
    ///
    /// # Errors
    /// - The errors of [`update`](Self::update), but no [`NotFound`]: [`found`](DeletedDocument::found) is `false`.
    /// - [`SettingsMismatch`]: documents of another repository depend on the document, such as the children of a subset.
    ///   Call what the error names, and pass this repository to its `through(..)`.
    pub fn delete(&self, id: impl IntoId) -> Delete<'_> {
        Delete::create(self.shared(), DocumentId::new(id), None, Document::new(), Vec::new())
    }
}

action! {
    /// Deletes a document; returned by [`HistoryRepository::delete`].
    pub struct Delete<'a> {
        shared: &'a Arc<Shared>,
        id: Result<DocumentId>,
        expected: Option<u64>,
        with: Document,
        through: Vec<&'a dyn Deletes>,
    }
    with session;

    /// Deletes the document only if it is at this revision (optimistic locking).
    expecting(revision: u64) => expected = Some(revision);

    /// Describes the deletion, by values of the [fields that describe a
    /// change](crate::HistoryRepositoryBuilder::change_fields). Each call replaces them. Other fields are refused with
    /// [`InvalidArgument`].
    with(fields: Document) => with = fields;

    "delete" => DeletedDocument
}

impl<'a> Delete<'a> {
    /// Deletes the document through a trash of the same documents too, which keeps it as it is before the deletion.
    ///
    /// See [`delete`](HistoryRepository::delete).
    pub fn through(mut self, trash: &'a dyn Deletes) -> Self {
        self.through.push(trash);
        self
    }

    async fn execute(mut self) -> Result<DeletedDocument> {
        let id = self.id?.into_bson();
        let shared = self.shared;
        shared.check_write().await?;
        let own = (&shared.current, shared.settings.id.as_str(), Place::History);
        through::prepare(own, shared.others(), &mut self.through).await?;
        let request = Request {
            change: Change::Delete,
            expected: self.expected,
            filter: Document::new(),
            with: checked_with(&self.shared.settings, self.with)?,
        };
        let deleted = match self.through.is_empty() {
            true => change(shared, id, request, self.session).await,
            false => {
                let mut conn = shared.enter(&id, self.session).await?;
                let (current, retry) = (&shared.current, &shared.settings.retry);
                let context = (&**shared, &id, &request, self.through.as_slice());
                let deleted = transaction::run(
                    current,
                    retry,
                    &mut conn,
                    context,
                    |conn, (shared, id, request, through)| Box::pin(delete_through(shared, id, request, through, conn)),
                );
                deleted.await
            }
        };
        let (found, revision) = match deleted {
            Ok(recorded) => (true, Some(recorded.revision)),
            Err(error) if error.kind() == ErrorKind::NotFound => (false, None),
            Err(error) => return Err(error),
        };
        Ok(DeletedDocument { found, revision })
    }
}
