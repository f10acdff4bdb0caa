use mongo_patterns_core::index::EnsureIndexes;

use crate::action::prelude::*;

impl<K: Key, T> BucketRepository<K, T> {
    /// Creates the [indexes](Self::indexes) that are missing, and stores the settings in the
    /// [catalog](mongo_patterns_core::catalog). Drops and changes nothing.
    ///
    /// Call it at every start of a service. Concurrent calls are safe.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let ensured = trades.ensure_indexes().await?; // once, at the start of the service
    /// for name in ensured.created {
    ///     println!("created the index {name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// Three round trips, one of them to read the settings in the [catalog](mongo_patterns_core::catalog), and three more when
    /// an index is created and the settings are stored: a sample of a collection without an entry must fit them. One more for a
    /// collection with documents, whose fields of the pattern must have no other values. To create an index, the server reads
    /// the whole collection.
    ///
    /// # Cancel safety
    /// None, some or all of the indexes are created, and the server may complete a build that it has begun. Call it
    /// again.
    ///
    /// # Errors
    /// [`SettingsMismatch`], with nothing written, when the [catalog](mongo_patterns_core::catalog) has other settings, or has
    /// none and no document has one of the fields, or one has another value than a number in the count field, or than figures
    /// and times of windows in theirs, unless you [replace](EnsureIndexes::replace_settings) them.
    /// With nothing created: [`IndexMismatch`] when an existing index conflicts, [`UnsupportedCollation`] when the
    /// collation of the collection is not the simple one, [`Configuration`] when it is a view, a time series, capped or
    /// clustered, and [`Corrupt`] when a key has several open buckets.
    pub fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        EnsureIndexes::new(self.shared().ensure())
    }
}
