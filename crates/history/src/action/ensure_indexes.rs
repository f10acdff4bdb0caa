use mongo_patterns_core::index::EnsureIndexes;

use super::prelude::*;

impl<D> HistoryRepository<D> {
    /// Creates the missing [indexes](Self::indexes) of both collections, and stores the settings in the
    /// [catalog](mongo_patterns_core::catalog). It drops and changes nothing. Services can call it
    /// at every start, concurrently.
    ///
    /// ```no_run
    /// # async fn f(policies: mongo_patterns_history::HistoryRepository<i32>) -> mongo_patterns_core::Result<()> {
    /// let ensured = policies.ensure_indexes().await?; // once, at the start of the service
    /// for name in ensured.created {
    ///     println!("created the index {name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Five round trips, one of them to find out what the server is, one to read the settings in the
    /// [catalog](mongo_patterns_core::catalog), and four more to check that a sample of revisions fits the settings, to create
    /// indexes, for which the server reads both collections, and to store the settings.
    ///
    /// # Sessions and transactions
    /// MongoDB does not allow it in a transaction.
    ///
    /// # Cancel safety
    /// None, some or all of the indexes are created, and the server may complete a build that it has begun. Call it
    /// again.
    ///
    /// # Errors
    /// [`Unsupported`], with nothing written, on a standalone, which has no transactions.
    ///
    /// [`SettingsMismatch`], with nothing written, when the [catalog](mongo_patterns_core::catalog) has other settings, or has
    /// none and no revision has one of the fields, unless you [replace](EnsureIndexes::replace_settings) them.
    /// With no index created: [`IndexMismatch`] when an index conflicts, [`UnsupportedCollation`] when the collation of
    /// a collection is not the simple one, and [`Configuration`] when a collection is a view, a time series, capped or
    /// clustered. [`Corrupt`] when two stored documents have the same id, or two revisions of one document the same number:
    /// [`verify`](Self::verify) names them.
    pub fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        EnsureIndexes::new(self.shared().ensure())
    }
}
