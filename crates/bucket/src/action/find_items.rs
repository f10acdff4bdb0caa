use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use futures::stream::{StreamExt, TryStreamExt, once};
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Corrupt, Decode, InvalidArgument};
use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::pages::check_limit;
use mongo_patterns_core::send::{self, Rows};
use mongo_patterns_core::{Error, Key, Result};
use mongodb::bson::{Document, doc};
use mongodb::options::AggregateOptions;
use serde::de::DeserializeOwned;

use crate::form::document::read_unwound;
use crate::query::across::{self, Explained, ItemFilter, found_items};
use crate::repository::{BucketRepository, Shared};
use crate::results::{FoundItem, ItemsPlan};

impl<K: Key, T> BucketRepository<K, T> {
    /// Returns the stages that make documents of the items of all keys, for an aggregation of yours.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::{Collection, bson::{Document, doc}};
    /// # async fn f(trades: BucketRepository<u32, i32>, collection: Collection<Document>)
    /// # -> mongo_patterns::mongodb::error::Result<()> {
    /// let mut stages = trades.items_pipeline(doc! { "ticker": "MDB" })?;
    /// stages.push(doc! { "$group": { "_id": "$customerId", "bought": { "$sum": "$qty" } } });
    /// let bought = collection.aggregate(stages).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A document is the key field, and the fields of the item in their order. It has no `_id`, unless the item has one.
    /// Where an item has a field with the name of the key field, the key is returned. Items must be documents: the
    /// server's aggregation fails at another one. Through a router of a sharded cluster, the server leaves out fields of the
    /// result whose names begin with `$`, which [`find_items`](Self::find_items) returns.
    ///
    /// The filter is as for [`find_items`](Self::find_items), and selects buckets first, so that an index serves it.
    /// Prefer it to a `$match` of yours after the stages, which reads all buckets.
    ///
    /// # Errors
    /// [`InvalidArgument`] for a filter with an operator in place of a field, except `$and`, `$or` and `$nor`.
    pub fn items_pipeline(&self, filter: Document) -> Result<Vec<Document>> {
        let settings = &self.shared().settings;
        let operation = self.shared().operation("items_pipeline");
        let filter = ItemFilter::new(settings, filter).map_err(|error| operation.name(error))?;
        Ok(filter.items(settings))
    }

    /// Finds items of all keys by their fields.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::{DateTime, doc};
    /// # async fn f(trades: BucketRepository<u32, i32>, since: DateTime) -> mongo_patterns::Result<()> {
    /// let filter = doc! { "ticker": "MDB", "date": { "$gte": since } };
    /// let mut found = trades.find_items(filter).sort(doc! { "date": -1 }).limit(20).stream();
    /// while let Some(trade) = found.try_next().await? {
    ///     println!("{} bought {}", trade.key, trade.item);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The paths of the filter are relative to the item. The name of the key field filters keys. An item is found if it
    /// matches the whole filter: not if two items of a bucket match a part each. The logical operators are `$and`, `$or` and
    /// `$nor`.
    ///
    /// Without [`sort`](FindItems::sort) the order is undefined. Items of different buckets are not read at one moment.
    ///
    /// # Cost
    /// One round trip for a reply of 16 MiB. Without an index on fields of the items the server reads the whole collection:
    /// [`explain`](FindItems::explain) tells, and returns the fields of an index. With it, the server reads the buckets
    /// that have a matching item, and returns those items only.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// [`InvalidArgument`] as for [`items_pipeline`](Self::items_pipeline) and for a limit of 0, [`Decode`] for an item that does not have the
    /// item type, [`Corrupt`] for a key that does not have the key type, and those of the driver.
    pub fn find_items(&self, filter: Document) -> FindItems<'_, K, T> {
        FindItems {
            shared: self.shared(),
            filter,
            sort: None,
            limit: None,
            max_time: None,
            types: PhantomData,
        }
    }
}

mongo_patterns_core::action! {
    /// Finds items of all keys; returned by [`BucketRepository::find_items`].
    pub struct FindItems<'a, K, T> {
        shared: &'a Shared,
        filter: Document,
        sort: Option<Document>,
        limit: Option<u32>,
        types: PhantomData<fn() -> (K, T)>,
    }
    with max_time;
}

/// A stream of items with their keys; returned by [`FindItems::stream`].
pub type FoundItemStream<'a, K, T> = Pin<Box<dyn Stream<Item = Result<FoundItem<K, T>>> + Send + 'a>>;

impl<'a, K: Key, T> FindItems<'a, K, T> {
    mongo_patterns_core::setters! {
        /// Sets the order, by fields of the item or the key field, as in the driver. The server sorts all items that it
        /// finds, or keeps as many as the [limit](Self::limit).
        sort(sort: Document) => sort = Some(sort);
        /// Sets the maximum number of items.
        limit(items: u32) => limit = Some(items);
    }

    /// Runs the search on the server, and returns how it found the items, in place of the items.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::{Collection, IndexModel, bson::{Document, doc}};
    /// # async fn f(trades: BucketRepository<u32, i32>, collection: Collection<Document>)
    /// # -> mongo_patterns::mongodb::error::Result<()> {
    /// let plan = trades.find_items(doc! { "ticker": "MDB" }).explain().await?;
    /// if let Some(keys) = plan.advice {
    ///     collection.create_index(IndexModel::builder().keys(keys).build()).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An index has an entry for each item, and each append writes to it.
    ///
    /// # Cost
    /// One round trip. The server does the same work as for the items, without the limit of 16 MiB for a reply.
    ///
    /// # Cancel safety
    /// Cancel-safe: it changes nothing.
    ///
    /// # Errors
    /// Those of the search, except `Decode` and `Corrupt`.
    pub fn explain(self) -> ActionFuture<'a, ItemsPlan> {
        let (shared, search) = (self.shared, self.search());
        run(shared.operation("find_items"), async move {
            let Search { filter, pipeline } = search?;
            let collection = &shared.collection;
            let aggregate = doc! { "aggregate": collection.name(), "pipeline": pipeline, "cursor": {} };
            let explain = doc! { "explain": aggregate, "verbosity": "executionStats" };
            let database = collection.client().database(&collection.namespace().db);
            let reply = send::run_read(&database, explain).await?;
            let explained = Explained::read(&reply);
            Ok(ItemsPlan {
                indexes: explained.indexes,
                documents_examined: explained.documents_examined,
                keys_examined: explained.keys_examined,
                advice: filter.index().filter(|_| explained.scans_collection),
            })
        })
    }

    fn search(self) -> Result<Search> {
        self.limit.map_or(Ok(()), check_limit)?;
        let settings = &self.shared.settings;
        let filter = ItemFilter::new(settings, self.filter)?;
        let sort = self.sort.map(|sort| across::sort(settings, sort)).transpose()?;
        let pipeline = found_items(settings, &filter, sort, self.limit.map(i64::from));
        Ok(Search { filter, pipeline })
    }
}

struct Search {
    filter: ItemFilter,
    pipeline: Vec<Document>,
}

impl<'a, K: Key, T: DeserializeOwned> FindItems<'a, K, T> {
    /// Returns the stream. It sends nothing before it is read.
    ///
    /// # Cancel safety
    /// Cancel-safe: the stream can be polled again after the future of an item was dropped, and loses none.
    pub fn stream(self) -> FoundItemStream<'a, K, T> {
        let (shared, max_time) = (self.shared, self.max_time);
        let call = shared.operation("find_items");
        let search = self.search();
        let rows = once(async move { run(call, open(shared, search, max_time)).await });
        let rows = rows.map_ok(|rows| rows.map_err(Error::from)).try_flatten();
        Box::pin(rows.map(move |row| {
            let item = row.and_then(|row| read_unwound(&shared.settings, &row));
            item.map(|(key, item)| FoundItem { key, item })
                .map_err(|error| call.name(error))
        }))
    }
}

async fn open(shared: &Shared, search: Result<Search>, max_time: Option<Duration>) -> Result<Rows> {
    let options = AggregateOptions::builder()
        .allow_disk_use(true)
        .max_time(max_time.or(shared.settings.max_time))
        .build();
    Ok(send::aggregate_rows(&shared.collection, search?.pipeline, options).await?)
}
