//! The calls that read.

use std::borrow::Borrow;

#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::Configuration;
use mongo_patterns_core::ErrorKind::InvalidArgument;
use mongo_patterns_core::action::Read;
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::{EncodeKey, Error, IntoId, Key};
use mongodb::options::FindOneOptions;
use serde::de::DeserializeOwned;

use crate::form::document::{Bucket, SelectedItems, read_item};
use crate::form::token::PageToken;
use crate::query::buckets::{buckets, buckets_beyond, buckets_of_key, counts, first_by_id, last_items};
use crate::query::item::only_item;
use crate::repository::BucketRepository;
use crate::results::Counts;
use crate::write::one_item::OneItem;

impl<K: Key, T> BucketRepository<K, T> {
    /// Counts the items and pages of a key exactly.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let counts = trades.counts(&123).await?;
    /// println!("{} trades on {} pages", counts.items, counts.pages);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip. The server reads every bucket of the key. For the number of pages only,
    /// [`count_pages`](Self::count_pages) reads just the index.
    pub fn counts<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Read<'_, Counts>
    where
        K: Borrow<Q>,
    {
        let (shared, key) = (self.shared(), key.encode_key().map_err(Error::from));
        Read::new(shared.operation("counts"), async move |mut conn| {
            let key = key?;
            let pipeline = counts(&shared.settings, &key);
            let found = conn.aggregate_all(&shared.collection, pipeline, None).await?;
            let found = found.first();
            let number = |field: &str| {
                let value = found.and_then(|found| found.get(field).ok().flatten());
                let value = value.and_then(stored_integer).unwrap_or(0);
                u64::try_from(value).unwrap_or(0)
            };
            Ok(Counts {
                items: number("items"),
                pages: number("pages"),
            })
        })
    }

    /// Counts the pages of a key.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let pages: u64 = trades.count_pages(&123).await?;
    /// println!("page 1 of {pages}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip. The server examines one index entry for each page, and on a sharded collection also the documents.
    pub fn count_pages<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Read<'_, u64>
    where
        K: Borrow<Q>,
    {
        let (shared, key) = (self.shared(), key.encode_key().map_err(Error::from));
        Read::new(shared.operation("count_pages"), async move |mut conn| {
            let filter = buckets(&key?);
            Ok(conn.count_documents(&shared.collection, filter, None).await?)
        })
    }
}

impl<K: Key, T: DeserializeOwned> BucketRepository<K, T> {
    /// Returns the item of a key with this id, if it exists. Requires an
    /// [item id field](crate::BucketRepositoryBuilder::item_id_field).
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(orders: BucketRepository<u32, Document>) -> mongo_patterns::Result<()> {
    /// if let Some(order) = orders.item(&123, "A-1007").await? {
    ///     println!("{order}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip, in which the server examines one document, and sends the one item.
    ///
    /// # Errors
    /// - [`Configuration`]: the repository has no item id field.
    pub fn item<Q: EncodeKey + ?Sized>(&self, key: &Q, id: impl IntoId) -> Read<'_, Option<T>>
    where
        K: Borrow<Q>,
    {
        let shared = self.shared();
        let item = OneItem::new(&shared.settings, key, id);
        Read::new(shared.operation("item"), async move |mut conn| {
            let item = item?;
            let (collection, settings) = shared.parts();
            let options = FindOneOptions::builder()
                .projection(only_item(settings, &item.field, &item.id))
                .hint(item.hint())
                .build();
            let found = conn.find_one(collection, item.filter(settings), options).await;
            let found = found.map_err(|error| item.failed(shared, error).with_key(item.key.text()))?;
            found.map_or(Ok(None), |bucket| {
                read_item(settings, &bucket).map_err(|error| error.with_key(item.key.text()))
            })
        })
    }
}

impl<K: Key, T: DeserializeOwned + Send> BucketRepository<K, T> {
    /// Returns the newest items of a key, the newest first: the items at the end of its last pages, whatever their times.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns::Result<()> {
    /// for trade in trades.newest(&123, 5).await? {
    ///     println!("{trade}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// One round trip if all pages but the last are full. The server examines at most one document more than the items need,
    /// and sends at most `count` items of each. With [windows](crate::BucketRepositoryBuilder::window), whose last buckets
    /// can have few items, more round trips.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a count of 0.
    pub fn newest<Q: EncodeKey + ?Sized>(&self, key: &Q, count: u32) -> Read<'_, Vec<T>>
    where
        K: Borrow<Q>,
    {
        let (shared, key) = (self.shared(), key.encode_key().map_err(Error::from));
        Read::new(shared.operation("newest"), async move |mut conn| {
            let key = key?;
            if count == 0 {
                let message = "the number of items is 0: ask for 1 item or more";
                return Err(Error::new(InvalidArgument, message));
            }
            let (collection, settings) = shared.parts();
            let wanted = count as usize;
            let mut items = Vec::new();
            let mut position: Option<PageToken> = None;
            let mut growth = 1_u32;
            loop {
                let missing = count - u32::try_from(items.len()).unwrap_or(u32::MAX);
                // The newest bucket has at least one item, and those before it have a page each.
                let mut buckets = (missing - 1).div_ceil(settings.page_size) + 1;
                if settings.windows.is_some() {
                    // Such a bucket can have one item only.
                    buckets = buckets.saturating_mul(growth).min(missing);
                    growth = growth.saturating_mul(4);
                }
                let filter = match &position {
                    None => buckets_of_key(settings, &key),
                    Some(token) => buckets_beyond(settings, &key, "$lt", token),
                };
                let slice = i32::try_from(missing).ok().filter(|_| missing < settings.page_size);
                let options = first_by_id(true, buckets, slice.map(|slice| last_items(settings, slice)));
                let found = conn.find_all(collection, filter, options).await?;
                let selected = slice.map_or(SelectedItems::All, |slice| SelectedItems::Newest(slice as usize));
                let reader = shared.reader(&key, selected);
                for document in &found {
                    let bucket: Bucket<K, T> = reader.read(document).map_err(|error| error.with_key(key.text()))?;
                    position = Some(bucket.token().clone());
                    items.extend(bucket.items.into_iter().rev().take(wanted - items.len()));
                }
                if items.len() == wanted || found.len() < buckets as usize {
                    return Ok(items);
                }
            }
        })
    }
}
