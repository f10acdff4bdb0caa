use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::index::EnsuredIndexes;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{Key, Result};
use mongodb::ClientSession;

use crate::BucketRepository;
use crate::repository::Shared;

impl<K: Key, T> BucketRepository<K, T> {
    /// Creates the [indexes](Self::indexes) that are missing. It drops and changes nothing, and may be called at every
    /// start of a service, by many at once.
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
    /// Two round trips, and a third when something is created. On a collection with data the server then reads it all.
    ///
    /// # Cancel safety
    /// None, some or all of the indexes are created, and the server may complete a build that it has begun. Call it
    /// again.
    ///
    /// # Errors
    /// With nothing created: [`IndexMismatch`](mongo_patterns_core::ErrorKind::IndexMismatch) when another index is in
    /// the way, [`UnsupportedCollation`](mongo_patterns_core::ErrorKind::UnsupportedCollation) when the collection's is not the simple one,
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) when it is a view, a time series, capped or clustered,
    /// and [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt) when a key has several open buckets already.
    pub fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        EnsureIndexes {
            shared: self.shared(),
            session: None,
        }
    }
}

/// Creates missing indexes; made by [`BucketRepository::ensure_indexes`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let ensured = trades.ensure_indexes().session(session).await?;
/// println!("created: {:?}", ensured.created);
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct EnsureIndexes<'a> {
    shared: &'a Shared,
    session: Option<&'a mut ClientSession>,
}

mongo_patterns_core::redacted_debug!(EnsureIndexes<'_>);

impl<'a> EnsureIndexes<'a> {
    /// Runs in the caller's session. MongoDB does not allow it in a transaction.
    pub fn session(mut self, session: impl Into<Option<&'a mut ClientSession>>) -> Self {
        self.session = session.into();
        self
    }
}

impl<'a> IntoFuture for EnsureIndexes<'a> {
    type Output = Result<EnsuredIndexes>;
    type IntoFuture = ActionFuture<'a, EnsuredIndexes>;

    fn into_future(self) -> Self::IntoFuture {
        let Shared {
            collection, settings, ..
        } = self.shared;
        run(self.shared.operation("ensure_indexes"), |_| async move {
            let mut session = Session::of_caller(self.session).await?;
            settings
                .index_plan(collection.name())
                .ensure_in(
                    &mut mongo_patterns_core::migration::Steps::Run(session.as_mut()),
                    collection,
                    None::<&mongodb::Collection<mongodb::bson::Document>>,
                )
                .await
        })
    }
}
