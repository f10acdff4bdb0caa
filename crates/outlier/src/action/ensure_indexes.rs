use mongo_patterns_core::index::EnsureIndexes;

use super::prelude::*;

impl<D, E> OutlierRepository<D, E> {
    /// Creates the missing [indexes](Self::indexes) of the overflow documents, and stores the settings in
    /// the [catalog](mongo_patterns_core::catalog). Idempotent: it drops and changes
    /// nothing, and many services may call it concurrently at every start.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// let ensured = books.ensure_indexes().await?; // once, at the start of the service
    /// for name in ensured.created {
    ///     println!("created the index {name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Four round trips, one of them to find out what the server is, one to read the settings in the
    /// [catalog](mongo_patterns_core::catalog), and four more when it creates an index and stores the settings: a sample of
    /// documents without an entry must fit them, and no main document may have another value than a flag in its field. For
    /// that, the server reads all documents.
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
    /// none and no document has one of the fields, or a main document has another value than a boolean (or the manual's text
    /// `"true"`) in the field of the flag, unless you [replace](EnsureIndexes::replace_settings) them.
    /// With no index created: [`IndexMismatch`] when another index conflicts, [`UnsupportedCollation`] when the
    /// collation of either collection is not the simple one, [`Configuration`] when one is a view, a time series,
    /// capped or clustered, and [`Corrupt`] when stored documents violate an index, as several overflow documents of
    /// the manual's form for one main document do: call [`migrate_existing`](Self::migrate_existing) first.
    pub fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        EnsureIndexes::new(self.shared().ensure())
    }
}
