use mongo_patterns_core::index::{Ensure, EnsureIndexes};

use super::prelude::*;

impl<P, C> EmbeddedRepository<P, C> {
    /// Checks the collection. It creates nothing, because the pattern needs no [indexes](Self::indexes). A service can
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
    /// Two round trips.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`UnsupportedCollation`] when the collation of the collection is not the simple one, because different ids could
    /// be equal under it, and [`Configuration`] when it is a view, a time series, capped or clustered.
    pub fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        EnsureIndexes::new(Ensure {
            call: self.shared().operation("ensure_indexes"),
            plan: self.indexes(),
            collection: self.collection(),
            other: None,
            has_indexes: None,
        })
    }
}
