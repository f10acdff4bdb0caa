//! The repository, and what its clones share.

mod suffixes;

use std::sync::Arc;

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::index::{Checks, Ensure, Managed};
use mongo_patterns_core::lanes::{Joined, Lanes};
use mongo_patterns_core::{EncodedKey, Key, Repository, Result, Validator};
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::{ClientSession, Collection};
use tracing::Span;

pub(crate) use self::suffixes::NextSuffixes;
use crate::form::document::{Reader, SelectedItems};
use crate::form::validator;
use crate::settings::Settings;

mongo_patterns_core::repository! {
    /// A collection of buckets: the items of each key, one document a page.
    ///
    /// Items have any type that serde can serialize and deserialize. If items can have fields such as `$date` or `$oid`, use
    /// `RawDocumentBuf`: `Document` takes them for extended JSON.
    ///
    /// Build one repository for a collection, and clone it, which is cheap. The clones share the [lanes](crate#lanes) of the
    /// keys. The [crate](crate) documentation has the stored documents and the guarantees.
    pub struct BucketRepository<K, T>;
    "bucket": |shared| shared.collection, max_time: shared.settings.max_time, "settings" = shared.settings
}

/// The state that does not depend on the types of key and item.
pub(crate) struct Shared {
    pub(crate) collection: Collection<RawDocumentBuf>,
    pub(crate) settings: Settings,
    pub(crate) suffixes: NextSuffixes,
    pub(crate) lanes: Lanes,
    /// The items of calls that wait for the lane of their key.
    pub(crate) appends: Arc<Joined<History>>,
    pub(crate) checks: Checks,
}

/// The key of items whose calls wait.
pub(crate) struct History {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: EncodedKey,
    /// The span of the append that started the task.
    pub(crate) span: Span,
}

impl Shared {
    /// Returns what creates the indexes and the entry, and shards the collection.
    pub(crate) fn ensure(&self) -> Ensure<'_> {
        let (collection, settings) = self.parts();
        let reason =
            "every command for a key has the key field, so it reaches one shard, and every unique index starts with it";
        let buckets = Managed::new(collection, settings.key.as_str(), reason)
            .limit("The buckets of a key are in one chunk, which cannot be split: a key with more data than the chunk size is a jumbo chunk, which the balancer does not move.")
            .limit("Keys of several types whose text is equal, such as 1 and \"1\", can be on two shards, where no unique index refuses the second one: a collection has keys of one type.")
            .limit("Pages by number, their count, lists of keys, and repairs are sent to all shards.")
            .indexes(settings.indexes())
            .only_one_of(settings.index_family());
        Ensure::new(
            self.operation("ensure_indexes"),
            None,
            settings.stored_form(),
            vec![buckets],
        )
        .fields(settings.fields())
        .own(settings.own_fields(collection))
        .owns(settings.owned(collection))
    }

    pub(crate) fn parts(&self) -> (&Collection<RawDocumentBuf>, &Settings) {
        (&self.collection, &self.settings)
    }

    /// Sends the commands of a write in the lane of its key, and in the session of the caller if there is one.
    pub(crate) async fn enter<'s>(&self, key: &EncodedKey, session: Option<&'s mut ClientSession>) -> Result<Conn<'s>> {
        Conn::enter(session, &self.lanes, key.text()).await
    }

    /// Returns a reader of the buckets of a key.
    pub(crate) fn reader<'a>(&'a self, key: &'a EncodedKey, selected: SelectedItems) -> Reader<'a> {
        let settings = &self.settings;
        Reader {
            settings,
            key,
            selected,
        }
    }
}

impl<K: Key, T> BucketRepository<K, T> {
    pub(crate) fn new(collection: Collection<RawDocumentBuf>, settings: Settings) -> Self {
        let lanes = Lanes::new(&collection);
        Self::of(Shared {
            collection,
            settings,
            suffixes: NextSuffixes::default(),
            appends: Arc::new(Joined::new(lanes.clone())),
            lanes,
            checks: Checks::default(),
        })
    }

    /// Returns the collection, for operations that this crate does not have.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let with_mdb = trades.collection().count_documents(doc! { "history.ticker": "MDB" }).await?;
    /// println!("{with_mdb} pages have a trade of MDB");
    /// # Ok(())
    /// # }
    /// ```
    pub fn collection(&self) -> Collection<Document> {
        self.shared.collection.clone_with_type()
    }

    /// Returns the number of items of a full bucket.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::{Bucket, BucketRepository};
    /// # fn f(trades: BucketRepository<u32, i32>, page: Bucket<u32, i32>) {
    /// let is_full = page.items.len() == trades.page_size() as usize;
    /// # }
    /// ```
    pub fn page_size(&self) -> u32 {
        self.shared.settings.page_size
    }
}

/// Where the catalog has no settings, `ensure_indexes()` refuses a collection in which no document has one of the fields. It
/// refuses another value than a number in the count field, and values of the application in the fields of figures and
/// windows. It is `Corrupt` if a key has several open buckets.
///
/// The validator is a `$jsonSchema` of the stored form, and an `$expr` which requires that the count is the number of items.
/// Set it with the largest page size in use, which old buckets can have.
impl<K: Key, T> Repository for BucketRepository<K, T> {
    fn managed(&self) -> Ensure<'_> {
        self.shared.ensure()
    }

    fn validators(&self) -> Vec<Validator> {
        let document = validator::validator::<K>(&self.shared.settings);
        vec![Validator::new(self.shared.collection.namespace(), document)]
    }
}
