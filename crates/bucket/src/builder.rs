use std::marker::PhantomData;

use mongo_patterns_core::{Error, ErrorKind, FieldName, Key, Result, RetryPolicy};
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;
use mongodb::options::Acknowledgment;

use crate::settings::{self, Settings};
use crate::{BucketRepository, IdPolicy};

/// Builds a [`BucketRepository`]: names, page size and policies.
///
/// ```no_run
/// # use mongo_patterns_core::RetryPolicy;
/// # use mongo_patterns_bucket::{BucketRepository, IdPolicy};
/// # use mongodb::{Collection, bson::Document};
/// # use std::time::Duration;
/// # async fn f(
/// #     trades: BucketRepository<u32, Document>,
/// #     collection: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
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

mongo_patterns_core::redacted_debug!(BucketRepositoryBuilder<K, T>, |this| "collection" = this.collection.namespace());

impl<K: Key, T> BucketRepositoryBuilder<K, T> {
    pub(crate) fn new(collection: Collection<RawDocumentBuf>) -> Self {
        Self {
            collection,
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

    /// The field that holds the key, such as `customerId`. Required.
    pub fn key_field(mut self, name: impl Into<String>) -> Self {
        self.key = Some(name.into());
        self
    }

    /// The array field that holds the items, such as `history`. Required.
    pub fn items_field(mut self, name: impl Into<String>) -> Self {
        self.items = Some(name.into());
        self
    }

    /// The field that holds the number of items; `count` by default.
    pub fn count_field(mut self, name: impl Into<String>) -> Self {
        self.count = name.into();
        self
    }

    /// The field of an item that holds its time, a BSON date. Without it, an item's time is that of the call, by this
    /// machine's clock. [`Append::at`](crate::action::Append::at) overrides both.
    pub fn time_field(mut self, name: impl Into<String>) -> Self {
        self.time = Some(name.into());
        self
    }

    /// The field of an item that identifies it among the items of its key, such as `tradeId` or `_id`. With it every item
    /// is stored exactly once: an append that is repeated, since its outcome was unknown for one, is recognised and stores
    /// nothing. It also finds, changes and removes single items.
    ///
    /// Every item must have it: a string, an int32 or int64, an ObjectId, binary data such as a UUID, or a date. It costs
    /// a second [index](BucketRepository::indexes), which has an entry for each item.
    pub fn item_id_field(mut self, name: impl Into<String>) -> Self {
        self.item_id = Some(name.into());
        self
    }

    /// How many items a full bucket has; 10 by default. It must not be so large that a bucket could pass 16 MiB.
    pub fn page_size(mut self, items: u32) -> Self {
        self.page_size = items;
        self
    }

    /// Where a new bucket stands among those of its key; [`IdPolicy::ItemTime`] by default.
    pub fn id_policy(mut self, policy: IdPolicy) -> Self {
        self.id_policy = policy;
        self
    }

    /// How long an append goes on trying when other writers are faster.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// The repository. Sends nothing.
    ///
    /// # Errors
    /// [`Configuration`](ErrorKind::Configuration), when a required name is missing, a name is not that of a plain
    /// field, the item id's is a number, which in a path would be a place in the array, two names are equal, the page
    /// size is 0 or above `i32::MAX`, or the collection's write concern is `w: 0`, under which no append could be
    /// confirmed.
    pub fn build(self) -> Result<BucketRepository<K, T>> {
        let required = |name: Option<String>, call: &str| {
            let name = name.ok_or_else(|| configuration(format!("call {call}(..) on the builder")));
            name.and_then(FieldName::new)
        };
        let key = required(self.key, "key_field")?;
        let count = FieldName::new(self.count)?;
        let settings = Settings {
            open_index: settings::open_index(&key, &count, self.page_size),
            key,
            items: required(self.items, "items_field")?,
            count,
            time: self.time.map(FieldName::new).transpose()?,
            item_id: self.item_id.map(FieldName::in_array).transpose()?,
            page_size: self.page_size,
            id_policy: self.id_policy,
            retry: self.retry,
        };
        if settings.key == settings.items || settings.key == settings.count || settings.items == settings.count {
            return Err(configuration("key, items and count must be three different fields"));
        }
        if settings.page_size == 0 || i32::try_from(settings.page_size).is_err() {
            return Err(configuration("the page size must be from 1 to 2,147,483,647"));
        }
        let acknowledgment = self.collection.write_concern().and_then(|concern| concern.w.as_ref());
        if acknowledgment == Some(&Acknowledgment::Nodes(0)) {
            return Err(configuration("the collection's write concern must not be w: 0"));
        }
        Ok(BucketRepository::new(self.collection, settings))
    }
}

// Not derived: that would need `Clone` and `Debug` of the types.
impl<K, T> Clone for BucketRepositoryBuilder<K, T> {
    fn clone(&self) -> Self {
        Self {
            collection: self.collection.clone(),
            key: self.key.clone(),
            items: self.items.clone(),
            count: self.count.clone(),
            time: self.time.clone(),
            item_id: self.item_id.clone(),
            page_size: self.page_size,
            id_policy: self.id_policy,
            retry: self.retry.clone(),
            types: PhantomData,
        }
    }
}

fn configuration(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}
