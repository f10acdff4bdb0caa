use std::sync::atomic::Ordering;

use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::index::EnsuredIndexes;
use mongo_patterns_core::session::Session;
use mongodb::ClientSession;

use crate::repository::OutlierRepository;
use crate::repository::Shared;

impl<D, E> OutlierRepository<D, E> {
    /// Creates the [indexes](Self::indexes) of the extras that are missing. It drops and changes nothing, and may be
    /// called at every start of a service, by many at once.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let ensured = books.ensure_indexes().await?; // once, at the start of the service
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
    /// the way, [`UnsupportedCollation`](mongo_patterns_core::ErrorKind::UnsupportedCollation) when that of either collection is not the simple one,
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) when one is a view, a time series, capped or clustered,
    /// and [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt) when stored extras violate it, as several of the manual's
    /// form for one document do: call [`migrate_existing`](Self::migrate_existing) first.
    pub fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        EnsureIndexes {
            shared: self.shared(),
            session: None,
        }
    }
}

/// Creates missing indexes; made by [`OutlierRepository::ensure_indexes`].
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     books: OutlierRepository<Document, String>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// let ensured = books.ensure_indexes().session(session).await?;
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
            main,
            overflow,
            settings,
            has_indexes,
            ..
        } = self.shared;
        run(self.shared.operation("ensure_indexes"), |_| async move {
            let plan = settings.index_plan(overflow.name());
            let mut session = Session::of_caller(self.session).await?;
            let ensured = plan.ensure_with(overflow, main, session.as_mut()).await?;
            has_indexes.store(true, Ordering::Relaxed);
            Ok(ensured)
        })
    }
}
