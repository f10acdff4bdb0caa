//! A collection of a repository.

use futures::future::BoxFuture;
use mongodb::bson::{Document, RawDocumentBuf};
use mongodb::{Collection, Namespace};

use super::plan::Created;
use super::{IndexPlan, PlannedIndex};
use crate::conn::Conn;
use crate::error::Result;
use crate::shard_key::ShardKeyChoice;

/// A collection of a repository.
#[doc(hidden)]
pub struct Managed {
    /// Its indexes, which may be none.
    pub(crate) plan: IndexPlan,
    /// The shard keys that suit it.
    pub(crate) shard_key: ShardKeyChoice,
    family: Option<String>,
    /// Whether it may be sharded with the repository's collection.
    pub(crate) may_be_sharded: bool,
}

crate::redacted_debug!(Managed, |managed| "collection" = managed.plan.namespace());

impl Managed {
    /// Creates the description of a collection whose documents are found by one field, which has a ranged and a hashed form
    /// as shard key.
    pub fn new(collection: &Collection<RawDocumentBuf>, field: &str, reason: &'static str) -> Self {
        Self {
            plan: IndexPlan::new(collection, Vec::new()),
            shard_key: ShardKeyChoice::new(collection.namespace(), field, reason),
            family: None,
            may_be_sharded: true,
        }
    }

    /// Creates the description of a collection whose documents are found by `_id`.
    pub fn by_id(collection: &Collection<RawDocumentBuf>) -> Self {
        let reason = "every command for a document has its `_id`, so it reaches one shard, and only the shard key is unique in all shards";
        Self::new(collection, "_id", reason)
            .limit("Documents with ascending ids, such as ObjectIds, are all inserted on one shard with the ranged key: use the hashed key for them.")
    }

    /// Sets the indexes.
    #[must_use]
    pub fn indexes(mut self, indexes: Vec<PlannedIndex>) -> Self {
        self.plan.indexes = indexes;
        self
    }

    /// Refuses an index that is not planned and whose name begins like this, as the index of another setting.
    #[must_use]
    pub fn only_one_of(mut self, family: String) -> Self {
        self.family = Some(family);
        self
    }

    /// Returns the collection and the names of the indexes, and whether a longer one does as well.
    pub(super) fn index_names(&self) -> Vec<(Namespace, String, bool)> {
        let namespace = self.plan.namespace();
        let indexes = self.plan.indexes.iter();
        let named = indexes.map(|index| (namespace.clone(), index.name.clone(), index.or_longer));
        named.collect()
    }

    /// Tells that it is not sharded, for example because a unique index could not span the shards.
    #[must_use]
    pub fn not_sharded(mut self) -> Self {
        self.may_be_sharded = false;
        self
    }

    /// Adds a shard key.
    #[must_use]
    pub fn or(mut self, key: Document) -> Self {
        self.shard_key.others.push(key);
        self
    }

    /// Adds a limit of the shard keys.
    #[must_use]
    pub fn limit(mut self, sentence: &'static str) -> Self {
        self.shard_key.limits.push(sentence);
        self
    }

    /// Returns the plan without the indexes that are created already.
    pub(crate) fn plan_in(&self, state: State, created: &[Created]) -> IndexPlan {
        let mut plan = self.plan.clone();
        let on = plan.namespace();
        let is_created = |name: &str| created.iter().any(|(there, one)| *there == on && one == name);
        plan.indexes.retain(|planned| !is_created(&planned.name));
        plan.family = self.family.clone().filter(|_| state == State::None);
        plan
    }

    /// Returns the planned index that supports the recommended shard key, if there is one.
    pub(crate) fn supported_by(&self) -> Option<&PlannedIndex> {
        let key = &self.shard_key.recommended;
        self.plan.indexes.iter().find(|index| index.supports(key))
    }
}

/// Checks that stored documents fit settings that are not stored yet.
#[doc(hidden)]
pub trait Fits: Send + Sync {
    /// Reads documents. The first collection has documents or not, if its fields were looked for.
    fn check_documents<'a>(&'a self, has_documents: bool, conn: &'a mut Conn<'_>) -> BoxFuture<'a, Result<()>>;
}

/// The entry of a repository in the catalog.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// It has the same settings.
    Stored,
    /// It has the same settings, but not yet all that the repository owns.
    Unconfirmed,
    None,
    /// It has other settings, of collections that were dropped.
    Dropped,
}
