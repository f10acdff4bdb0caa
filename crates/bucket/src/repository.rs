//! The repository, and what its clones share.

mod suffixes;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mongo_patterns_core::action::Call;
use mongo_patterns_core::catalog::Entry;
use mongo_patterns_core::index::{Ensure, IndexPlan};
use mongo_patterns_core::lanes::{Joined, Lanes};
use mongo_patterns_core::migration::Steps;
use mongodb::ClientSession;

pub(crate) use self::suffixes::NextSuffixes;
use crate::form::document::{Part, Reader};
use crate::form::validator;
use crate::prelude::*;
use crate::settings::Settings;

/// A collection of buckets: the items of each key, one document a page.
///
/// Items have any type that serde can serialize and deserialize. With `Document`, items with fields such as `$date` or
/// `$oid`, which the driver takes for extended JSON, are stored but cannot be read. Use `RawDocumentBuf` where items
/// can have such fields.
///
/// A clone is cheap, and shares the state of the original. The [crate](crate) documentation has the stored documents
/// and the guarantees.
///
/// Build one repository for a collection, and clone it. The clones share the [lanes](crate#lanes) of the keys.
pub struct BucketRepository<K, T> {
    shared: Arc<Shared>,
    types: PhantomData<fn() -> (K, T)>,
}

/// The state that does not depend on the types of key and item.
pub(crate) struct Shared {
    pub(crate) collection: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    pub(crate) suffixes: NextSuffixes,
    pub(crate) lanes: Lanes,
    /// The items of calls that wait for the lane of their key.
    pub(crate) appends: Arc<Joined<History>>,
    /// Set when the index of the item ids was seen.
    pub(crate) has_item_index: AtomicBool,
}

/// The key of items whose calls wait.
pub(crate) struct History {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: EncodedKey,
    /// The span of the append that started the task.
    pub(crate) span: Span,
}

mongo_patterns_core::redacted_debug!(Shared, |shared| "collection" = shared.collection.namespace());

impl Shared {
    pub(crate) fn operation(&self, operation: &'static str) -> Call<'_> {
        Call {
            pattern: "bucket",
            operation,
            collection: &self.collection,
        }
    }

    pub(crate) fn index_plan(&self) -> IndexPlan {
        self.settings.index_plan(self.collection.name())
    }

    /// Returns the entry in the catalog.
    pub(crate) fn entry(&self) -> Entry {
        self.entry_of(self.settings.stored_form())
    }

    pub(crate) fn entry_of(&self, settings: Document) -> Entry {
        Entry::new("bucket", &self.collection, None, settings)
    }

    /// Returns what creates the indexes and the entry.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        Ensure {
            call: self.operation("ensure_indexes"),
            plan: self.index_plan(),
            collection: &self.collection,
            other: None,
            other_plan: None,
            further: Vec::new(),
            entry: self.entry(),
            fields: self.settings.fields(),
            own: Some(self.settings.own_fields(&self.collection)),
            fits: None,
            family: self.settings.index_family(),
            needs_transactions: false,
            has_indexes: None,
        }
    }

    /// Compares the settings with the catalog.
    pub(crate) async fn check_settings(&self) -> Result<()> {
        self.entry().check(&mut Steps::run()).await.map(drop)
    }

    /// Returns the collection and the settings.
    pub(crate) fn parts(&self) -> (&Collection<RawDocumentBuf>, &Settings) {
        (&self.collection, &self.settings)
    }

    /// Sends the commands of a write in the lane of its key, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, key: &EncodedKey, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, key.text()).await
    }

    /// Returns a reader of the buckets of a key.
    pub(crate) fn reader<'a>(&'a self, key: &'a EncodedKey, part: Part) -> Reader<'a> {
        let settings = &self.settings;
        Reader { settings, key, part }
    }
}

impl<K: Key, T> BucketRepository<K, T> {
    pub(crate) fn new(collection: Collection<RawDocumentBuf>, settings: Settings) -> Self {
        let lanes = Lanes::new(&collection);
        Self {
            shared: Arc::new(Shared {
                collection,
                settings,
                suffixes: NextSuffixes::default(),
                appends: Arc::new(Joined::new(lanes.clone())),
                lanes,
                has_item_index: AtomicBool::new(false),
            }),
            types: PhantomData,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the collection, for operations that this crate does not have.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::doc;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// let with_mdb = trades.collection().count_documents(doc! { "history.ticker": "MDB" }).await?;
    /// println!("{with_mdb} pages have a trade of MDB");
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> &Collection<RawDocumentBuf> {
        &self.shared.collection
    }

    /// Returns the number of items of a full bucket.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::{Bucket, BucketRepository};
    /// # fn f(trades: BucketRepository<u32, i32>, page: Bucket<u32, i32>) {
    /// let is_full = page.items.len() == trades.page_size() as usize;
    /// # }
    /// ```
    pub fn page_size(&self) -> u32 {
        self.shared.settings.page_size
    }

    /// Returns the indexes that the repository relies on.
    ///
    /// The first is unique, on the key field, over the buckets that are not full. It guarantees at most one open bucket
    /// for each key, and lets an append examine one document at any length of the history. With an [item id
    /// field](crate::BucketRepositoryBuilder::item_id_field) there is a second one: unique, on the key field and the
    /// ids of the items.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns_core::Result<()> {
    /// println!("{}", trades.indexes()); // the calls of createIndex, for a shell
    /// trades.indexes().check(trades.collection()).await?; // an error where one is missing
    /// # Ok(())
    /// # }
    /// ```
    pub fn indexes(&self) -> IndexPlan {
        self.shared.index_plan()
    }

    /// Returns a validator for the collection: a `$jsonSchema` of the stored form, and an `$expr` which requires that
    /// the count is the number of items.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::{Database, bson::doc};
    /// # async fn f(trades: BucketRepository<u32, i32>, database: Database) -> mongo_patterns_core::Result<()> {
    /// // A new collection, or an existing one.
    /// database.create_collection("trades").validator(trades.validator()).await?;
    /// database.run_command(doc! { "collMod": "trades", "validator": trades.validator() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Pass it to `create_collection().validator(..)` or to the command `collMod`. Then no other program can store a
    /// bucket that this crate reports as corrupt. Old buckets of a larger page size violate it: create it with the
    /// largest page size in use, or set the validation level `moderate`.
    pub fn validator(&self) -> Document {
        validator::validator::<K>(&self.shared.settings)
    }
}

mongo_patterns_core::clone_fields!(BucketRepository<K, T>, shared, types);
mongo_patterns_core::redacted_debug!(
    BucketRepository<K, T>,
    |this| "collection" = this.shared.collection.namespace(),
    "settings" = this.shared.settings
);
