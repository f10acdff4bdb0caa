//! The builder of a repository.

use std::marker::PhantomData;

use mongo_patterns_core::RetryPolicy;
use mongo_patterns_core::settings::{check_acknowledged, check_bound, configuration, required};

use crate::prelude::*;
use crate::repository::BucketRepository;
use crate::settings::{self, IdPolicy, Settings};

impl<K: Key, T> BucketRepository<K, T> {
    /// Creates a builder of a repository over a collection, whose read preference, read concern and write concern it
    /// uses.
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
    #[allow(clippy::needless_pass_by_value)] // the builder keeps the collection, with another type
    pub fn builder<C: Send + Sync>(collection: Collection<C>) -> BucketRepositoryBuilder<K, T> {
        BucketRepositoryBuilder {
            collection: collection.clone_with_type(),
            key: None,
            items: None,
            count: "count".to_owned(),
            time: None,
            item_id: None,
            page_size: 10,
            id_policy: IdPolicy::default(),
            retry: RetryPolicy::default(),
            types: PhantomData,
        }
    }
}

/// A builder of a [`BucketRepository`]: field names, page size and policies.
///
/// ```no_run
/// # use mongo_patterns_core::RetryPolicy;
/// # use mongo_patterns_bucket::{BucketRepository, IdPolicy};
/// # use mongodb::{Collection, bson::Document};
/// # use std::time::Duration;
/// # async fn f(collection: Collection<Document>) -> mongo_patterns_core::Result<()> {
/// let trades = BucketRepository::<u32, Document>::builder(collection)
///     .key_field("customerId")
///     .items_field("history")
///     .count_field("count")
///     .time_field("date")
///     .item_id_field("tradeId")
///     .page_size(50)
///     .id_policy(IdPolicy::Monotonic)
///     .retry(RetryPolicy::default().with_max_elapsed(Duration::from_secs(5)))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until build() is called"]
pub struct BucketRepositoryBuilder<K, T> {
    collection: Collection<RawDocumentBuf>,
    key: Option<String>,
    items: Option<String>,
    count: String,
    time: Option<String>,
    item_id: Option<String>,
    page_size: u32,
    id_policy: IdPolicy,
    retry: RetryPolicy,
    types: PhantomData<fn() -> (K, T)>,
}

mongo_patterns_core::clone_fields!(
    BucketRepositoryBuilder<K, T>, collection, key, items, count, time, item_id, page_size, id_policy, retry, types
);
mongo_patterns_core::redacted_debug!(BucketRepositoryBuilder<K, T>, |this| "collection" = this.collection.namespace());

impl<K: Key, T> BucketRepositoryBuilder<K, T> {
    mongo_patterns_core::setters! {
        /// Sets the field of the key, such as `customerId`. Required.
        key_field(name: impl Into<String>) => key = Some(name.into());

        /// Sets the array field of the items, such as `history`. Required.
        items_field(name: impl Into<String>) => items = Some(name.into());

        /// Sets the field of the number of items; `count` by default.
        count_field(name: impl Into<String>) => count = name.into();

        /// Sets the field of an item that contains its time, a BSON date. Without it, the time of an item is that of
        /// the call, by the clock of this machine. [`Append::at`](crate::action::Append::at) overrides both.
        time_field(name: impl Into<String>) => time = Some(name.into());

        /// Sets the field of an item that identifies it among the items of its key, such as `tradeId` or `_id`.
        ///
        /// Every item is then stored exactly once: a retry of an append whose outcome is unknown stores nothing if the
        /// item is stored. Single items can be found, changed and removed by their ids.
        ///
        /// Every item must have the field, of one of these types: string, int32 or int64, ObjectId, binary data such as
        /// a UUID, or date. It needs a second [index](BucketRepository::indexes), which has an entry for each item.
        item_id_field(name: impl Into<String>) => item_id = Some(name.into());

        /// Sets the number of items of a full bucket; 10 by default. A full bucket must stay below 16 MiB.
        page_size(items: u32) => page_size = items;

        /// Sets the position of a new bucket among those of its key; [`IdPolicy::ItemTime`] by default.
        id_policy(policy: IdPolicy) => id_policy = policy;

        /// Sets how often, and for how long, a write retries after a conflict with another writer.
        retry(policy: RetryPolicy) => retry = policy;
    }

    /// Builds the repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration) in these cases:
    ///
    /// - A required field name is missing, a name is not that of a plain field, or two names are equal.
    /// - The item id field is a number, which a path would take for a position in the array.
    /// - The page size is 0 or above `i32::MAX`.
    /// - The write concern of the collection is `w: 0`, under which no append is confirmed.
    pub fn build(self) -> Result<BucketRepository<K, T>> {
        let key = required(self.key, "key_field").and_then(FieldName::new)?;
        let count = FieldName::new(self.count)?;
        let settings = Settings {
            open_index: settings::open_index(&key, &count, self.page_size),
            key,
            items: required(self.items, "items_field").and_then(FieldName::new)?,
            count,
            time: self.time.map(FieldName::new).transpose()?,
            item_id: self.item_id.map(FieldName::in_array).transpose()?,
            page_size: self.page_size,
            id_policy: self.id_policy,
            retry: self.retry,
        };
        if settings.key == settings.items || settings.key == settings.count || settings.items == settings.count {
            return Err(configuration(
                "two of the fields of key, items and count have the same name: set three different names",
            ));
        }
        check_bound("page size", settings.page_size)?;
        check_acknowledged(&self.collection)?;
        Ok(BucketRepository::new(self.collection, settings))
    }
}
