use mongo_patterns_core::index::EnsureIndexes;

use super::prelude::*;

impl<P, C> SubsetRepository<P, C> {
    /// Creates the missing [indexes](Self::indexes) of the children, and stores the settings in the
    /// [catalog](mongo_patterns_core::catalog). It drops and changes nothing. Services can call it
    /// at every start, concurrently.
    ///
    /// ```no_run
    /// # async fn f(products: mongo_patterns_subset::SubsetRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let ensured = products.ensure_indexes().await?; // once, at the start of the service
    /// for name in ensured.created {
    ///     println!("created the index {name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Four round trips, one of them to find out what the server is, one to read the settings in the
    /// [catalog](mongo_patterns_core::catalog), and four more to check that a sample of children fits the settings, and that
    /// no parent has another value than a number in the fields of the version and the total, to create indexes and to store
    /// the settings. For these, the server reads both collections.
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
    /// none and no document has one of the fields, or a parent has another value than a number in the field of the version or
    /// the total, unless you [replace](EnsureIndexes::replace_settings) them.
    /// With no index created: [`IndexMismatch`] when an index conflicts, [`UnsupportedCollation`] when the collation of
    /// a collection is not the simple one, [`Configuration`] when a collection is a view, a time series, capped or
    /// clustered, and [`Corrupt`] when two stored children of one parent have the same id: [`verify`](Self::verify) names them.
    pub fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        EnsureIndexes::new(self.shared().ensure())
    }
}
