use std::sync::Arc;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{InvalidArgument, NotFound, SettingsMismatch};
use mongo_patterns_core::{DocumentId, ErrorKind, IntoId, Result, action};
use mongodb::bson::Document;

use crate::form::update::checked_with;
use crate::query::change::Change;
use crate::repository::{HistoryRepository, Shared};
use crate::results::DeletedDocument;
use crate::write::change::Request;
use crate::write::joined::change;

impl<D> HistoryRepository<D> {
    /// Deletes the current document, and stores the deletion as a revision without content. The history remains. The revision has what
    /// other repositories [own](mongo_patterns_core::catalog#owners) in the document, for a [`restore`](Self::restore).
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
    /// # Cost
    /// Four round trips, each of which examines at most one document: the change into the revision of the deletion, its
    /// copy, the deletion, and the commit. The first write of a repository has three more, and one if its `ensure_indexes()` was not
    /// called.
    ///
    /// # Cancel safety
    /// It has no effect, unless its commit had begun, which completes, or its transaction also has changes of other calls.
    ///
    /// Call it again: it finds nothing if it took effect. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// As [`update`](Self::update), but no [`NotFound`]: then [`found`](DeletedDocument::found) is `false`.
    ///
    /// [`SettingsMismatch`], with nothing deleted, where documents of another repository depend on the document, such as the
    /// children of a subset: call what the error names, with `through(..)` this repository.
    pub fn delete(&self, id: impl IntoId) -> Delete<'_> {
        Delete::create(self.shared(), DocumentId::new(id), None, Document::new())
    }
}

action! {
    /// Deletes a document; returned by [`HistoryRepository::delete`].
    pub struct Delete<'a> {
        shared: &'a Arc<Shared>,
        id: Result<DocumentId>,
        expected: Option<u64>,
        with: Document,
    }
    with session;

    /// Deletes the document only if it is at this revision (optimistic locking).
    expecting(revision: u64) => expected = Some(revision);

    /// Describes the deletion, by values of the [fields that describe a
    /// change](crate::HistoryRepositoryBuilder::change_fields). Each call replaces them, and one without them removes
    /// them. Other fields are refused with [`InvalidArgument`].
    with(fields: Document) => with = fields;

    "delete" => DeletedDocument
}

impl Delete<'_> {
    async fn execute(self) -> Result<DeletedDocument> {
        let id = self.id?.into_bson();
        self.shared.check_write().await?;
        let others = self.shared.others().await?;
        others.check_delete(".through(..)", |_| false)?;
        let request = Request {
            change: Change::Delete,
            expected: self.expected,
            filter: Document::new(),
            with: checked_with(&self.shared.settings, self.with)?,
        };
        let (found, revision) = match change(self.shared, id, request, self.session).await {
            Ok(recorded) => (true, Some(recorded.revision)),
            Err(error) if error.kind() == ErrorKind::NotFound => (false, None),
            Err(error) => return Err(error),
        };
        Ok(DeletedDocument { found, revision })
    }
}
