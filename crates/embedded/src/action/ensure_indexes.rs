use mongo_patterns_core::index::EnsureIndexes;

use super::prelude::*;

impl<P, C> EmbeddedRepository<P, C> {
    /// Checks the collection, and stores the settings in the [catalog](mongo_patterns_core::catalog). It creates nothing
    /// else, because the pattern needs no [indexes](Self::indexes). A service can
    /// call it for all its repositories when it starts.
    ///
    /// ```no_run
    /// # async fn f(patrons: mongo_patterns_embedded::EmbeddedRepository<(), ()>) -> mongo_patterns_core::Result<()> {
    /// let ensured = patrons.ensure_indexes().await?;
    /// assert!(ensured.created.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Three round trips, one of them to read the settings in the [catalog](mongo_patterns_core::catalog), and one more when
    /// it stores them.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`SettingsMismatch`], with nothing written, when the [catalog](mongo_patterns_core::catalog) has other settings, unless
    /// you [replace](EnsureIndexes::replace_settings) them.
    /// [`UnsupportedCollation`] when the collation of the collection is not the simple one, because different ids could
    /// be equal under it, and [`Configuration`] when it is a view, a time series, capped or clustered.
    pub fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        EnsureIndexes::new(self.shared().ensure())
    }
}
