//! The repository, and the state that its clones share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mongo_patterns_core::action::Call;
use mongo_patterns_core::catalog::Entry;
use mongo_patterns_core::hints::HintCache;
use mongo_patterns_core::index::{Ensure, IndexPlan};
use mongo_patterns_core::lanes::{Joined, Lanes};
use mongo_patterns_core::topology::Topology;
use mongodb::ClientSession;

use crate::form::validator;
use crate::prelude::*;

/// A collection of documents with an array each, and a second collection for the elements beyond a threshold.
///
/// `D` is the type of a whole main document, its array included, and `E` that of an element. A clone is cheap. See
/// the [crate](crate) for the stored documents and the guarantees.
///
/// Build one for a collection and clone it. Clones share the [lanes](crate#lanes) of the lists.
pub struct OutlierRepository<D, E> {
    shared: Arc<Shared>,
    types: PhantomData<fn() -> (D, E)>,
}

/// What does not depend on the types of document and element.
pub(crate) struct Shared {
    pub(crate) main: Collection<RawDocumentBuf>,
    pub(crate) overflow: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    pub(crate) lanes: Lanes,
    /// The elements of calls that wait for the lane of their list.
    pub(crate) pushes: Arc<Joined<List>>,
    /// Whether the indexes are known to exist.
    pub(crate) has_indexes: AtomicBool,
    /// The `_id` of the newest overflow document of the outliers that this process knows.
    outliers: HintCache<Bson>,
}

/// The list of elements whose calls wait.
pub(crate) struct List {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: Bson,
}

mongo_patterns_core::redacted_debug!(
    Shared,
    |shared| "collection" = shared.main.namespace(),
    "extras_collection" = shared.overflow.namespace()
);

impl Shared {
    /// Checks, once for a repository, that the indexes exist. One round trip, outside of any session. A hint would
    /// check only one of the indexes, and not every command has a hint.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        if !self.has_indexes.load(Ordering::Relaxed) {
            let checked = self.index_plan().check(&self.overflow).await;
            Topology::explain(&self.overflow, checked).await?;
            self.has_indexes.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the collections of the main documents and of the overflow documents, and the settings.
    pub(crate) fn parts(&self) -> (&Collection<RawDocumentBuf>, &Collection<RawDocumentBuf>, &Settings) {
        (&self.main, &self.overflow, &self.settings)
    }

    pub(crate) fn index_plan(&self) -> IndexPlan {
        self.settings.index_plan(self.overflow.name())
    }

    /// Returns the entry in the catalog.
    pub(crate) fn entry(&self) -> Entry {
        let settings = self.settings.stored_form(self.overflow.name());
        Entry::new("outlier", &self.main, Some(self.settings.array.as_str()), settings)
    }

    /// Returns what creates the indexes and the entry.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        Ensure {
            call: self.operation("ensure_indexes"),
            plan: self.index_plan(),
            collection: &self.overflow,
            other: Some(&self.main),
            other_plan: None,
            further: Vec::new(),
            entry: self.entry(),
            fields: self.settings.fields_of_overflow(),
            own: Some(self.settings.own_fields(&self.main)),
            fits: Some(self),
            family: None,
            needs_transactions: true,
            has_indexes: Some(&self.has_indexes),
        }
    }

    /// Returns the `_id` of the newest overflow document of an outlier that this process knows. It may be wrong.
    pub(crate) fn known_outlier(&self, id: &Bson) -> Option<Bson> {
        self.outliers.get(id, |newest| Some(newest.clone()))
    }

    /// Remembers an outlier.
    pub(crate) fn remember_outlier(&self, id: &Bson, newest: Bson) {
        self.outliers.set(id, newest);
    }

    /// Forgets an outlier. Returns whether this process knew it.
    pub(crate) fn forget_outlier(&self, id: &Bson) -> bool {
        self.outliers.forget(id)
    }

    /// Sends the commands of a write in the lane of its list, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, id: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &document_id::text(id)).await
    }

    pub(crate) fn operation(&self, operation: &'static str) -> Call<'_> {
        Call {
            pattern: "outlier",
            operation,
            collection: &self.main,
        }
    }
}

impl<D, E> OutlierRepository<D, E> {
    pub(crate) fn new(
        main: Collection<RawDocumentBuf>,
        overflow: Collection<RawDocumentBuf>,
        settings: Settings,
    ) -> Self {
        let lanes = Lanes::new(&main);
        Self {
            shared: Arc::new(Shared {
                main,
                overflow,
                settings,
                pushes: Arc::new(Joined::new(lanes.clone())),
                lanes,
                has_indexes: AtomicBool::new(false),
                outliers: HintCache::default(),
            }),
            types: PhantomData,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the collection of the main documents, for operations that the repository does not have.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
    /// let outliers = books.collection().count_documents(doc! { "has_extras": true }).await?;
    /// books.collection().update_one(doc! { "_id": 2 }, doc! { "$set": { "year": 2023 } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.main
    }

    /// Returns the collection of the overflow documents.
    pub fn extras_collection(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.overflow
    }

    /// Returns the most elements of a main document.
    pub fn threshold(&self) -> u32 {
        self.shared.settings.threshold
    }

    /// Returns the indexes of the overflow documents that the repository relies on: a unique one on parent and
    /// position. With [unique elements](crate::OutlierRepositoryBuilder::unique_elements) there is a second one,
    /// unique, on parent and elements. The main documents need none except `_id`.
    ///
    /// ```no_run
    /// # async fn f(books: mongo_patterns_outlier::OutlierRepository<(), String>) -> mongo_patterns_core::Result<()> {
    /// println!("{}", books.indexes()); // the createIndex calls, for a shell
    /// books.indexes().check(books.extras_collection()).await?; // an error if one does not exist
    /// # Ok(())
    /// # }
    /// ```
    pub fn indexes(&self) -> IndexPlan {
        self.shared.index_plan()
    }

    /// Returns a validator for the main documents: an array up to the threshold, and a boolean flag.
    ///
    /// ```no_run
    /// # use mongo_patterns_outlier::OutlierRepository;
    /// # use mongodb::{Database, bson::doc};
    /// # async fn f(books: OutlierRepository<(), String>, database: Database) -> mongo_patterns_core::Result<()> {
    /// // A new collection, or an existing one.
    /// database.create_collection("sales").validator(books.validator()).await?;
    /// database.run_command(doc! { "collMod": "sales", "validator": books.validator() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With it, the server refuses other programs that push beyond the threshold. Set it after
    /// [`migrate_existing`](Self::migrate_existing), or with the validation level `moderate`.
    pub fn validator(&self) -> Document {
        validator::main(&self.shared.settings)
    }

    /// Returns a validator for the overflow documents: their form, and a count that is the number of elements.
    /// Use it as [`validator`](Self::validator).
    pub fn extras_validator(&self) -> Document {
        validator::overflow(&self.shared.settings)
    }
}

mongo_patterns_core::clone_fields!(OutlierRepository<D, E>, shared, types);

mongo_patterns_core::redacted_debug!(
    OutlierRepository<D, E>,
    |this| "collection" = this.shared.main.namespace(),
    "extras_collection" = this.shared.overflow.namespace(),
    "settings" = this.shared.settings
);

/// The names that the modules above the repository use.
pub(crate) mod prelude {
    pub(crate) use super::Shared;
    pub(crate) use crate::prelude::*;
    pub(crate) use crate::query;
}
