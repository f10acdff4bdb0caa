use mongo_patterns_core::index::{Ensure, EnsureIndexes};

use super::prelude::*;

impl<D, E> OutlierRepository<D, E> {
    /// Creates the missing [indexes](Self::indexes) of the overflow documents. Idempotent: it drops and changes
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
    /// Two round trips, and a third one when it creates an index. To create one, the server reads all overflow
    /// documents.
    ///
    /// # Sessions and transactions
    /// MongoDB does not allow it in a transaction.
    ///
    /// # Cancel safety
    /// None, some or all of the indexes are created, and the server may complete a build that it has begun. Call it
    /// again.
    ///
    /// # Errors
    /// With no index created: [`IndexMismatch`] when another index conflicts, [`UnsupportedCollation`] when the
    /// collation of either collection is not the simple one, [`Configuration`] when one is a view, a time series,
    /// capped or clustered, and [`Corrupt`] when stored documents violate an index, as several overflow documents of
    /// the manual's form for one main document do: call [`migrate_existing`](Self::migrate_existing) first.
    pub fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        let shared = self.shared();
        EnsureIndexes::new(Ensure {
            call: shared.operation("ensure_indexes"),
            plan: shared.index_plan(),
            collection: &shared.overflow,
            other: Some(&shared.main),
            has_indexes: Some(&shared.has_indexes),
        })
    }
}
