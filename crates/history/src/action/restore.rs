#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{InvalidArgument, NotFound};
use mongo_patterns_core::{DocumentId, IntoId, Result, action};
use mongodb::bson::Document;

use crate::form::update::checked_with;
use crate::repository::{HistoryRepository, Shared};
use crate::results::Recorded;
use crate::write::restore::restore;

impl<D> HistoryRepository<D> {
    /// Restores the content of a revision, as a new revision. The history remains. A deleted document is inserted again.
    ///
    /// Fields that other repositories [own](mongo_patterns_core::catalog#owners) stay as they are. A deleted document gets
    /// them back as they were at the deletion, or, if another program deleted it, as in the last revision.
    // proof: together::replaced::each_call_keeps_what_each_other_repository_owns, together::deleted::a_deleted_document_is_restored_with_what_others_had_at_its_deletion
    ///
    /// ```no_run
    /// # async fn f(policies: mongo_patterns::history::HistoryRepository<()>) -> mongo_patterns::Result<()> {
    /// let recorded = policies.restore(1, 2).await?;
    /// println!("revision {} has the content of revision 2", recorded.revision);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// As [`upsert`](Self::upsert), and one more round trip for the revision. For a deleted document in which others own
    /// fields, one or two more.
    ///
    /// # Cancel safety
    /// As [`update`](Self::update).
    ///
    /// # Errors
    /// - The errors of [`update`](Self::update).
    /// - [`NotFound`]: the document has no such revision. Or a revision is [expected](Restore::expecting), and the document
    ///   does not exist.
    /// - [`InvalidArgument`]: the revision is a deletion.
    pub fn restore(&self, id: impl IntoId, revision: u64) -> Restore<'_> {
        Restore::create(self.shared(), DocumentId::new(id), revision, None, Document::new())
    }
}

action! {
    /// Restores a revision; returned by [`HistoryRepository::restore`].
    pub struct Restore<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        revision: u64,
        expected: Option<u64>,
        with: Document,
    }
    with session;

    /// Restores the revision only if the document is at this one (optimistic locking).
    expecting(revision: u64) => expected = Some(revision);

    /// Describes the restoration, by values of the [fields that describe a
    /// change](crate::HistoryRepositoryBuilder::change_fields). Each call replaces them. Other fields are refused with
    /// [`InvalidArgument`].
    with(fields: Document) => with = fields;

    "restore" => Recorded
}

impl Restore<'_> {
    async fn execute(self) -> Result<Recorded> {
        let id = self.id?.into_bson();
        let with = checked_with(&self.shared.settings, self.with)?;
        restore(self.shared, id, self.revision, self.expected, with, self.session).await
    }
}
