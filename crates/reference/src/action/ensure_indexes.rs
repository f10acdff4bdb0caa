use mongo_patterns_core::index::EnsureIndexes;

use super::prelude::*;

impl<D, S> ReferenceRepository<D, S> {
    /// Creates the missing [indexes](Self::indexes) of the referring collections, and stores the settings in the
    /// [catalog](mongo_patterns_core::catalog). It drops and changes nothing. Services can call it at every start,
    /// concurrently.
    ///
    /// ```no_run
    /// # async fn f(orders: mongo_patterns_reference::ReferenceRepository<i32, i32>) -> mongo_patterns_core::Result<()> {
    /// let ensured = orders.ensure_indexes().await?; // once, at the start of the service
    /// for name in ensured.created {
    ///     println!("created the index {name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Four round trips, and two for each further referring collection. One more for each collection whose indexes are
    /// created, for which the server reads it, and two to store the settings: sources that no repository has written must not
    /// have a version. If they do, one for each reference field, one for each referring collection, and one of the catalog.
    ///
    /// # Sessions and transactions
    /// MongoDB does not allow it in a transaction.
    ///
    /// # Cancel safety
    /// None, some or all of the indexes are created, and the server may complete a build that it has begun. Call it
    /// again.
    ///
    /// # Errors
    /// [`Unsupported`], with nothing written, on a standalone.
    ///
    /// [`SettingsMismatch`], with nothing written, when the [catalog](mongo_patterns_core::catalog) has other settings, or has
    /// none, and sources have a number in the field of the version that no copy has, without the indexes and without another
    /// repository that copies them,
    /// unless you [replace](EnsureIndexes::replace_settings) them. With no index created: [`IndexMismatch`] when an index
    /// conflicts, [`UnsupportedCollation`] when the collation of a collection is not the simple one, and
    /// [`Configuration`] when a collection is a view, a time series, capped or clustered.
    pub fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        EnsureIndexes::new(self.shared().ensure())
    }
}
