#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{IndexMissing, InvalidArgument};
use mongo_patterns_core::{DocumentId, IntoId, Result, action};
use mongodb::bson::DateTime;

use crate::repository::{HistoryRepository, Shared};
use crate::results::Pruned;
use crate::write::prune::{Keep, prune};

impl<D> HistoryRepository<D> {
    /// Deletes the oldest revisions of a document: by [number](Prune::keep_last) or by [time](Prune::before). The newest
    /// revision always remains, because the next one continues its number.
    ///
    /// ```no_run
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(policies: mongo_patterns::history::HistoryRepository<()>, start: DateTime)
    /// # -> mongo_patterns::Result<()> {
    /// let pruned = policies.prune(1).keep_last(100).await?;
    /// println!("{} revisions deleted", pruned.revisions);
    /// policies.prune(2).before(start).await?; // as_of(2, start) still has an answer
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Safe for concurrent writers.
    ///
    /// # Cost
    /// Two round trips, which examine the deleted documents and one more.
    ///
    /// # Cancel safety
    /// None, some or all of the revisions are deleted, from the oldest. Call it again. A [transaction of the
    /// caller](mongo_patterns_core::action#cancel-safety) is aborted.
    ///
    /// # Errors
    /// With nothing deleted: [`InvalidArgument`] for an invalid id, without a setting, and for `keep_last(0)`, and
    /// [`IndexMissing`].
    pub fn prune(&self, id: impl IntoId) -> Prune<'_> {
        Prune::create(self.shared(), DocumentId::new(id), Keep::Unset)
    }
}

action! {
    /// Deletes old revisions; returned by [`HistoryRepository::prune`].
    pub struct Prune<'a> {
        shared: &'a Shared,
        id: Result<DocumentId>,
        keep: Keep,
    }
    with session;

    /// Keeps this number of the newest revisions, at least 1.
    keep_last(revisions: u64) => keep = Keep::Last(revisions);

    /// Deletes the revisions that are not needed to read the document as of this time or later. The one that was valid at
    /// this time remains.
    before(time: DateTime) => keep = Keep::Since(time);

    "prune" => Pruned
}

impl Prune<'_> {
    async fn execute(self) -> Result<Pruned> {
        let id = self.id?.into_bson();
        prune(self.shared, &id, self.keep, self.session).await
    }
}
