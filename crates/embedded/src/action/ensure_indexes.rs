use mongo_patterns_core::Result;
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::index::{EnsuredIndexes, IndexPlan};
use mongo_patterns_core::session::Session;
use mongodb::ClientSession;

use crate::EmbeddedRepository;
use crate::repository::Shared;

impl<P, C> EmbeddedRepository<P, C> {
    /// Checks the collection, and creates nothing, since the pattern needs no [indexes](Self::indexes). It is here so
    /// that a service can call it for all its repositories at its start.
    ///
    /// ```no_run
    /// # use mongo_patterns_embedded::EmbeddedRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(patrons: EmbeddedRepository<Document, Document>) -> mongo_patterns_core::Result<()> {
    /// let ensured = patrons.ensure_indexes().await?; // once, at the start of the service
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
    /// [`UnsupportedCollation`](mongo_patterns_core::ErrorKind::UnsupportedCollation) when the collection's is not the simple one, under which
    /// ids that differ would be equal, and [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) when it is a
    /// view, a time series, capped or clustered.
    pub fn ensure_indexes(&self) -> EnsureIndexes<'_> {
        EnsureIndexes {
            shared: self.shared(),
            plan: self.indexes(),
            session: None,
        }
    }
}

/// Checks the collection; made by [`EmbeddedRepository::ensure_indexes`].
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{ClientSession, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     session: &mut ClientSession,
/// # ) -> mongo_patterns_core::Result<()> {
/// patrons.ensure_indexes().session(session).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct EnsureIndexes<'a> {
    shared: &'a Shared,
    plan: IndexPlan,
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
        run(self.shared.operation("ensure_indexes"), |_| async move {
            let mut session = Session::of_caller(self.session).await?;
            self.plan
                .ensure_in(
                    &mut mongo_patterns_core::migration::Steps::Run(session.as_mut()),
                    &self.shared.collection,
                    None::<&mongodb::Collection<mongodb::bson::Document>>,
                )
                .await
        })
    }
}
