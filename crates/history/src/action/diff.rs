use super::prelude::*;
use crate::form::diff::diff;
use crate::read::find_revision;
use crate::write::restore::no_revision;

impl<D> HistoryRepository<D> {
    /// Returns the fields that differ between two revisions, in either order. Documents are compared field by field, and
    /// arrays element by element. The revision of a deletion has no fields.
    ///
    /// ```no_run
    /// # async fn f(policies: mongo_patterns_history::HistoryRepository<()>) -> mongo_patterns_core::Result<()> {
    /// for change in policies.diff(1, 2, 5).await?.changes {
    ///     println!("{}: {:?} -> {:?}", change.path, change.before, change.after);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Two round trips, each of which examines one document.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing. A [transaction of the caller](mongo_patterns_core::action#cancel-safety) is
    /// aborted.
    ///
    /// # Errors
    /// [`NotFound`] when the document does not have one of the revisions, [`InvalidArgument`] for an invalid id, and
    /// [`IndexMissing`].
    pub fn diff(&self, id: impl IntoId, from: u64, to: u64) -> FindDiff<'_> {
        FindDiff::create(self.shared(), DocumentId::new(id), [from, to])
    }
}

action! {
    /// Compares two revisions; returned by [`HistoryRepository::diff`].
    pub struct FindDiff<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        revisions: [u64; 2],
    }
    with session, max_time;
    "diff" => Diff
}

impl FindDiff<'_> {
    async fn execute(self) -> Result<Diff> {
        let (shared, id, [from, to]) = (self.shared, self.id?.into_bson(), self.revisions);
        let mut conn = Conn::to_read(self.session, self.max_time.or(self.shared.settings.max_time)).await?;
        let before = find_revision(shared, &id, from, &mut conn).await?;
        let after = find_revision(shared, &id, to, &mut conn).await?;
        match (before, after) {
            (Some(before), Some(after)) => diff(&shared.settings, &before, &after),
            _ => Err(no_revision()),
        }
    }
}
