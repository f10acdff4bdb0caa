#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::InvalidArgument;
use mongo_patterns_core::action::Write;
use mongo_patterns_core::{Deleted, DocumentId, IntoId, Result};
use mongodb::bson::DateTime;

use crate::repository::HistoryRepository;
use crate::write::delete_old::{Keep, delete_old};

impl<D> HistoryRepository<D> {
    /// Deletes the revisions of a document that are not needed to read it as of a time or later.
    ///
    /// The newest revision that is not later than the time stays, because it was valid then. So does the newest revision of
    /// all, because the next one continues its number.
    ///
    /// ```no_run
    /// # use mongo_patterns::mongodb::bson::DateTime;
    /// # async fn f(policies: mongo_patterns::history::HistoryRepository<()>, start: DateTime)
    /// # -> mongo_patterns::Result<()> {
    /// let deleted = policies.delete_before(1, start).await?; // as_of(1, start) still has an answer
    /// println!("{} revisions", deleted.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The oldest revisions are deleted first. Safe for concurrent writers.
    ///
    /// # Cost
    /// Two round trips, which examine the deleted documents and one more.
    ///
    /// # Cancel safety
    /// None, some or all of the revisions are deleted, from the oldest. Call it again.
    pub fn delete_before(&self, id: impl IntoId, time: DateTime) -> Write<'_, Deleted> {
        self.delete_old("delete_before", DocumentId::new(id), Keep::Since(time))
    }

    /// Deletes the oldest revisions of a document, except this number of the newest, at least 1.
    ///
    /// ```no_run
    /// # async fn f(policies: mongo_patterns::history::HistoryRepository<()>) -> mongo_patterns::Result<()> {
    /// policies.keep_last(1, 100).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Safe for concurrent writers.
    ///
    /// # Cost
    /// As [`delete_before`](Self::delete_before).
    ///
    /// # Cancel safety
    /// As [`delete_before`](Self::delete_before).
    ///
    /// # Errors
    /// - [`InvalidArgument`]: 0, because the newest revision continues the numbers of the history.
    pub fn keep_last(&self, id: impl IntoId, revisions: u64) -> Write<'_, Deleted> {
        self.delete_old("keep_last", DocumentId::new(id), Keep::Last(revisions))
    }

    fn delete_old(&self, operation: &'static str, id: Result<DocumentId>, keep: Keep) -> Write<'_, Deleted> {
        let shared = self.shared();
        Write::new(shared.operation(operation), async move |session| {
            delete_old(shared, id?.value(), keep, session).await
        })
    }
}
