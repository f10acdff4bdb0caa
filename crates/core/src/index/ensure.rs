//! The call that creates the indexes of a repository.

use std::sync::atomic::{AtomicBool, Ordering};

use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;

use super::{EnsuredIndexes, IndexPlan};
use crate::action::Call;
use crate::error::Result;
use crate::migration::Steps;
use crate::session::Session;

crate::action! {
    /// Creates the indexes of a repository; returned by its `ensure_indexes()`.
    pub struct EnsureIndexes<'a> {
        shared: Ensure<'a>,
    }
    with session;
    "ensure_indexes" => EnsuredIndexes
}

/// The collections of a repository, and its indexes.
#[doc(hidden)]
pub struct Ensure<'a> {
    /// The call, whose collection is named in errors.
    pub call: Call<'a>,
    /// The indexes.
    pub plan: IndexPlan,
    /// The collection that has them.
    pub collection: &'a Collection<RawDocumentBuf>,
    /// The other collection of the pattern, which needs none.
    pub other: Option<&'a Collection<RawDocumentBuf>>,
    /// Set when they exist.
    pub has_indexes: Option<&'a AtomicBool>,
}

crate::redacted_debug!(Ensure<'_>, |ensure| "collection" = ensure.collection.namespace());

impl<'a> Ensure<'a> {
    fn operation(&self, operation: &'static str) -> Call<'a> {
        Call { operation, ..self.call }
    }
}

impl<'a> EnsureIndexes<'a> {
    /// Creates the action.
    #[doc(hidden)]
    pub fn new(shared: Ensure<'a>) -> Self {
        Self { shared, session: None }
    }

    async fn execute(self) -> Result<EnsuredIndexes> {
        let shared = self.shared;
        let mut session = Session::of_caller(self.session).await?;
        let steps = &mut Steps::Run(session.as_mut());
        let ensured = shared.plan.ensure_in(steps, shared.collection, shared.other).await?;
        if let Some(has_indexes) = shared.has_indexes {
            has_indexes.store(true, Ordering::Relaxed);
        }
        Ok(ensured)
    }
}
