//! Counters, and what their calls share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mongo_patterns_core::catalog::{OwnField, OwnFields, Owned};
use mongo_patterns_core::document_id::bytes;
use mongo_patterns_core::index::{Ensure, Managed};
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, FieldName, IntoId, Repository, Result, Validator};
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use tokio::sync::Notify;

use crate::pending::{Batch, Pending};
use crate::settings::Settings;

/// The most bytes of an id: 1000 of them are in one command, of at most 16 MiB.
const MOST_BYTES: usize = 8_000;
/// The most levels of documents and arrays in an id. The server refuses a command with about 200.
const MOST_LEVELS: usize = 100;

mongo_patterns_core::repository! {
    /// Counts of the documents of a collection, such as the views of articles.
    ///
    /// A clone is cheap, and shares everything, also the counts. The [crate documentation](crate) has the stored form and the
    /// guarantees.
    pub struct Counters;
    "counters": |shared| shared.collection, max_time: None
}

pub(crate) struct Shared {
    pub(crate) collection: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    /// Names this process in the documents.
    pub(crate) writer: ObjectId,
    pending: Mutex<Pending>,
    /// One, for all flushes.
    pub(crate) lanes: Lanes,
    /// The batch that a flush sends. A flush that is dropped leaves it.
    pub(crate) batch: tokio::sync::Mutex<Batch>,
    /// Notified when there are counts for a whole command.
    pub(crate) full: Notify,
}

impl Shared {
    pub(crate) fn pending(&self) -> MutexGuard<'_, Pending> {
        // No code panics while it has the lock.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what checks the collection, and stores the entry.
    fn ensure(&self) -> Ensure<'_> {
        let collection = &self.collection;
        let [field, batches] = [&self.settings.field, &self.settings.batches].map(FieldName::as_str);
        let numbers = ["int", "long", "double", "decimal"];
        let fields = vec![
            OwnField::of_types("field", field, &numbers),
            OwnField::of_types("field", batches, &["array"]),
        ];
        let (call, stored) = (self.operation("ensure_indexes"), doc! { "field": field });
        Ensure::new(call, Some(field), stored, vec![Managed::by_id(collection)])
            .own(OwnFields { collection, fields })
            .owns(
                [field, batches]
                    .map(|name| Owned::field(collection, name, "field"))
                    .into(),
            )
    }
}

/// Counters need no index. `ensure_indexes()` stores in the catalog that they own the count and its batches, so that other
/// repositories keep them when they replace or restore a document. Where the catalog has no settings, it refuses a document
/// in which these fields are not a number and an array.
///
/// There is no validator.
impl Repository for Counters {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        Vec::new()
    }
}

impl Counters {
    pub(crate) fn new(collection: Collection<RawDocumentBuf>, settings: Settings) -> Self {
        Self::of(Shared {
            lanes: Lanes::new(&collection),
            collection,
            settings,
            writer: ObjectId::new(),
            pending: Mutex::default(),
            batch: tokio::sync::Mutex::default(),
            full: Notify::new(),
        })
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
    /// Ids that are equal to the server are one, such as 1 and 1.0, or ids that the collation of the collection takes for
    /// one. It sends nothing.
    ///
    /// # Errors
    /// - [`InvalidArgument`](mongo_patterns_core::ErrorKind::InvalidArgument): an id that no document can have, or of more
    ///   than 8,000 bytes or 100 levels. Or a sum of more than 64 bits.
    /// - [`LimitReached`](mongo_patterns_core::ErrorKind::LimitReached): the counts of 100,000 documents wait because
    ///   nothing flushes them.
    pub fn add(&self, id: impl IntoId, count: i64) -> Result<()> {
        let id = DocumentId::new(id)?;
        let bytes = bytes(id.value()).len();
        if bytes > MOST_BYTES {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "an id of a counter must not have more than 8,000 bytes, nothing was added: use a shorter one",
            ));
        }
        // In a command, it would keep all other counts from being added.
        if bytes == 0 || !can_be_sent(id.value(), MOST_LEVELS) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "an id of a counter must not have a field whose name begins with `$` or contains NUL, or more than 100 levels, nothing was added: use another id",
            ));
        }
        let is_full = self.shared.pending().add(&id, count)?;
        if is_full {
            self.shared.full.notify_one();
        }
        Ok(())
    }
}

/// Returns whether the server accepts an id in a command: no name begins with `$`, and it has no more than these levels.
fn can_be_sent(id: &Bson, levels: usize) -> bool {
    match id {
        Bson::Document(_) | Bson::Array(_) if levels == 0 => false,
        Bson::Document(document) => document
            .iter()
            .all(|(name, value)| !name.starts_with('$') && can_be_sent(value, levels - 1)),
        Bson::Array(values) => values.iter().all(|value| can_be_sent(value, levels - 1)),
        _ => true,
    }
}
