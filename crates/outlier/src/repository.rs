//! The repository, and the state that its clones share.

use std::sync::Arc;

use mongo_patterns_core::catalog::Others;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::hints::HintCache;
use mongo_patterns_core::index::{Checks, Ensure, Managed};
use mongo_patterns_core::lanes::{Joined, Lanes};
use mongo_patterns_core::{Repository, Result, Validator, document_id};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::{ClientSession, Collection};

use crate::form::validator;
use crate::settings::Settings;

mongo_patterns_core::repository! {
    /// A collection of documents with an array each, and a second collection for the elements beyond a threshold.
    ///
    /// `D` is the type of a whole main document, its array included, and `E` the type of an element. Build one for a
    /// collection and clone it, which is cheap. Clones share the [lanes](crate#lanes) of the lists. See the [crate](crate)
    /// for the stored documents and the guarantees.
    pub struct OutlierRepository<D, E>;
    "outlier": |shared| shared.main, max_time: shared.settings.max_time,
        "extras_collection" = shared.overflow.namespace(), "settings" = shared.settings
}

/// What does not depend on the types of document and element.
pub(crate) struct Shared {
    pub(crate) main: Collection<RawDocumentBuf>,
    pub(crate) overflow: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    pub(crate) lanes: Lanes,
    /// The elements of calls that wait for the lane of their list.
    pub(crate) pushes: Arc<Joined<List>>,
    checks: Checks,
    /// The `_id` of the newest overflow document of the outliers that this process knows.
    outliers: HintCache<Bson>,
}

/// The list of elements whose calls wait.
pub(crate) struct List {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: Bson,
}

impl Shared {
    /// Checks once that the indexes exist.
    pub(crate) async fn check_indexes(&self) -> Result<()> {
        self.checks.indexes(|| self.ensure()).await
    }

    /// Returns what other repositories own in the main documents, for a deletion.
    pub(crate) async fn others(&self) -> Result<Arc<Others>> {
        self.checks.others(|| self.ensure()).await
    }

    /// Returns the collections of the main documents and of the overflow documents, and the settings.
    pub(crate) fn parts(&self) -> (&Collection<RawDocumentBuf>, &Collection<RawDocumentBuf>, &Settings) {
        (&self.main, &self.overflow, &self.settings)
    }

    /// Returns what creates the indexes and the entry, and shards the collections.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let (main, overflow, settings) = self.parts();
        let [parent, _, seq, _] = settings.overflow_fields();
        let reason = "every command for the overflow documents of a list has the parent, so it reaches one shard, and every unique index starts with it";
        let mut of_overflow = Managed::new(overflow, parent, reason)
            .limit("The overflow documents of a list are in one chunk, which cannot be split: a list with more data than the chunk size is a jumbo chunk, which the balancer does not move.")
            .indexes(settings.indexes());
        if !settings.unique {
            of_overflow = of_overflow
                .or(doc! { parent: 1, seq: 1 })
                .limit("With the position in the key, a list can be on several shards: its reads are sent to all of them, and are not of one moment outside a transaction.");
        }
        let (call, stored) = (self.operation("ensure_indexes"), settings.stored_form(overflow.name()));
        let collections = vec![of_overflow, Managed::by_id(main)];
        Ensure::new(call, Some(settings.array.as_str()), stored, collections)
            .fields(settings.fields_of_overflow())
            .own(settings.own_fields(main))
            .owns(settings.owned(main, overflow))
            .fits(self)
            .others_in(main, &self.checks)
            .remembered_in(self.checks.indexes_exist())
    }

    /// Returns the `_id` of the newest overflow document of an outlier that this process knows. It may be wrong.
    pub(crate) fn known_outlier(&self, id: &Bson) -> Option<Bson> {
        self.outliers.get(id, |newest| Some(newest.clone()))
    }

    pub(crate) fn remember_outlier(&self, id: &Bson, newest: Bson) {
        self.outliers.set(id, newest);
    }

    /// Forgets an outlier. Returns whether this process knew it.
    pub(crate) fn forget_outlier(&self, id: &Bson) -> bool {
        self.outliers.forget(id)
    }

    /// Sends the commands of a write in the lane of its list, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, id: &Bson, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, &document_id::canonical(id)).await
    }
}

impl<D, E> OutlierRepository<D, E> {
    pub(crate) fn new(
        main: Collection<RawDocumentBuf>,
        overflow: Collection<RawDocumentBuf>,
        settings: Settings,
    ) -> Self {
        let lanes = Lanes::new(&main);
        Self::of(Shared {
            main,
            overflow,
            settings,
            pushes: Arc::new(Joined::new(lanes.clone())),
            lanes,
            checks: Checks::default(),
            outliers: HintCache::default(),
        })
    }

    /// Returns the collection of the overflow documents.
    pub fn overflow_collection(&self) -> Collection<Document> {
        self.shared.overflow.clone_with_type()
    }

    /// Returns the most elements of a main document.
    pub fn threshold(&self) -> u32 {
        self.shared.settings.threshold
    }
}

impl<D: Send + Sync, E> OutlierRepository<D, E> {
    /// Returns the collection of the main documents, for operations that the repository does not have.
    ///
    /// ```no_run
    /// # use mongo_patterns::outlier::OutlierRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns::Result<()> {
    /// let outliers = books.collection().count_documents(doc! { "has_extras": true }).await?;
    /// books.collection().update_one(doc! { "_id": 2 }, doc! { "$set": { "year": 2023 } }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> Collection<D> {
        self.shared.main.clone_with_type()
    }
}

/// Where the catalog has no settings, `ensure_indexes()` refuses collections in which no overflow document has one of the
/// fields. It refuses a main document with another value in the field of the flag than a boolean or the manual's text
/// `"true"`. It is `Corrupt` if stored documents violate an index. If a main document has several overflow documents of the
/// manual's form, call [`migrate_existing`](Self::migrate_existing) first.
///
/// The validator of the main documents requires an array up to the threshold and a boolean flag. The second validator
/// requires the form of the overflow documents.
impl<D, E> Repository for OutlierRepository<D, E> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        let (main, overflow, settings) = self.shared.parts();
        vec![
            Validator::new(main.namespace(), validator::main(settings)),
            Validator::new(overflow.namespace(), validator::overflow(settings)),
        ]
    }
}
