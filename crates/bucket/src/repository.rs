mod suffixes;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mongo_patterns_core::Key;
use mongo_patterns_core::action::Call;
use mongo_patterns_core::index::IndexPlan;
use mongo_patterns_core::key_locks::KeyLocks;
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf};

use self::suffixes::Suffixes;
use crate::BucketRepositoryBuilder;
use crate::form::validator;
use crate::settings::Settings;

/// A collection of buckets: the items of each key, one document a page.
///
/// Items are of any type that serde can write and read. With `Document`, items with fields such as `$date` or `$oid`,
/// which the driver takes for extended JSON, are stored but cannot be read: use `RawDocumentBuf` where items can have them.
///
/// A clone is cheap and shares what the original knows. See the [crate](crate) for the documents and the guarantees.
///
/// Make one for a collection and clone it: the clones keep writes away from a transaction of theirs, on which they would
/// wait with the connections that it needs.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::{Document, doc};
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// trades.ensure_indexes().await?;
/// let for_a_task = trades.clone();
/// tokio::spawn(async move { for_a_task.append(&123, &doc! { "qty": 419 }).await });
/// # Ok(())
/// # }
/// ```
pub struct BucketRepository<K, T> {
    shared: Arc<Shared>,
    types: PhantomData<fn() -> (K, T)>,
}

/// What does not depend on the types of key and item.
pub(crate) struct Shared {
    pub(crate) collection: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    pub(crate) suffixes: Suffixes,
    pub(crate) locks: KeyLocks,
    /// Whether the index of the item ids has been seen.
    pub(crate) has_item_index: AtomicBool,
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
}

impl<K: Key, T> BucketRepository<K, T> {
    /// Starts to build a repository over a collection. Its read preference, read concern and write concern are used.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::{Database, bson::Document};
    /// # struct Trade;
    /// # fn f(database: Database) -> mongo_patterns_core::Result<()> {
    /// let trades = BucketRepository::<u32, Trade>::builder(database.collection::<Document>("trades"))
    ///     .key_field("customerId")
    ///     .items_field("history")
    ///     .time_field("date")
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collection, as one of another type
    pub fn builder<C: Send + Sync>(collection: Collection<C>) -> BucketRepositoryBuilder<K, T> {
        BucketRepositoryBuilder::new(collection.clone_with_type())
    }

    pub(crate) fn new(collection: Collection<RawDocumentBuf>, settings: Settings) -> Self {
        Self {
            shared: Arc::new(Shared {
                collection,
                settings,
                suffixes: Suffixes::default(),
                locks: KeyLocks::default(),
                has_item_index: AtomicBool::new(false),
            }),
            types: PhantomData,
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn share(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// The collection, for what this crate does not do.
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

    /// How many items a full bucket has.
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

    /// The indexes that the repository relies on: one, unique, on the key field, over the buckets that are not full.
    /// By it there is at most one open bucket a key, and an append examines one document however long the history is.
    /// With an [item id field](BucketRepositoryBuilder::item_id_field), a second one, unique, on the key field and the
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
        self.shared.settings.index_plan(self.shared.collection.name())
    }

    /// A validator for the collection: a `$jsonSchema` for the form of a bucket, and an `$expr` that the count is the
    /// number of items.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::{Database, bson::doc};
    /// # async fn f(trades: BucketRepository<u32, i32>, database: Database) -> mongo_patterns_core::Result<()> {
    /// // A new collection, or one that is there.
    /// database.create_collection("trades").validator(trades.validator()).await?;
    /// database.run_command(doc! { "collMod": "trades", "validator": trades.validator() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is for `create_collection().validator(..)` or the command `collMod`. With it, no other program can store a
    /// bucket that this crate would call corrupt. Old buckets of a larger page size break its limit: give it the
    /// largest page size in use, or the validation level `moderate`.
    pub fn validator(&self) -> Document {
        validator::validator::<K>(&self.shared.settings)
    }
}

impl<K, T> Clone for BucketRepository<K, T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            types: PhantomData,
        }
    }
}

impl<K, T> fmt::Debug for BucketRepository<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketRepository")
            .field("collection", &self.shared.collection.namespace())
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}
