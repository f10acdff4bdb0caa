//! Counters, and what their calls share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mongo_patterns_core::action::Call;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, IntoId, Result};
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, RawDocumentBuf};
use tokio::sync::Notify;

use crate::pending::{Batch, Pending};
use crate::settings::Settings;

/// Counts of the documents of a collection, such as the views of articles.
///
/// A clone is cheap, and shares everything, also the counts. The [crate documentation](crate) has the stored form and the
/// guarantees.
#[derive(Clone)]
pub struct Counters {
    shared: Arc<Shared>,
}

mongo_patterns_core::redacted_debug!(Counters, |this| "collection" = this.shared.collection.namespace());

pub(crate) struct Shared {
    pub(crate) collection: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    /// Names this process in the documents.
    pub(crate) writer: ObjectId,
    pending: Mutex<Pending>,
    /// The batch that a flush sends. A flush that is dropped leaves it.
    pub(crate) batch: tokio::sync::Mutex<Batch>,
    /// Notified when there are counts for a whole command.
    pub(crate) full: Notify,
}

mongo_patterns_core::redacted_debug!(Shared, |shared| "collection" = shared.collection.namespace());

impl Shared {
    pub(crate) fn operation(&self, operation: &'static str) -> Call<'_> {
        Call::new("counters", operation, &self.collection)
    }

    pub(crate) fn pending(&self) -> MutexGuard<'_, Pending> {
        // No code panics while it has the lock.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counters {
    pub(crate) fn new(collection: Collection<RawDocumentBuf>, settings: Settings) -> Self {
        let shared = Shared {
            collection,
            settings,
            writer: ObjectId::new(),
            pending: Mutex::default(),
            batch: tokio::sync::Mutex::default(),
            full: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Adds a count to a document, in memory. The next [flush](Self::flush) adds it in the database.
    ///
    /// ```no_run
    /// # fn f(views: mongo_patterns::counters::Counters) -> mongo_patterns::Result<()> {
    /// views.add("article-1", 1)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Numbers that are equal to the server, such as 1 and 1.0, are one id.
    ///
    /// # Cost
    /// It sends nothing, and waits for nothing but other threads that add.
    ///
    /// # Errors
    /// With nothing added: [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument) for an id that no document
    /// has, one with a decimal128 or a symbol, or a sum of more than 64 bits, and
    /// [`LimitReached`](mongo_patterns_core::ErrorKind::LimitReached) when the counts of 100,000 documents wait because
    /// nothing flushes them.
    pub fn add(&self, id: impl IntoId, count: i64) -> Result<()> {
        let id = DocumentId::new(id)?;
        if can_equal_another_text(id.value()) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "an id of a counter must not be or contain a decimal128 or a symbol, nothing was added: use another type",
            ));
        }
        let is_full = self.shared.pending().add(&id, count)?;
        if is_full {
            self.shared.full.notify_one();
        }
        Ok(())
    }
}

/// Returns whether the server can take the id for one whose text is another. Two counts of one document in a batch would be
/// one.
fn can_equal_another_text(id: &Bson) -> bool {
    match id {
        Bson::Decimal128(_) | Bson::Symbol(_) => true,
        Bson::Document(document) => document.values().any(can_equal_another_text),
        _ => false,
    }
}
