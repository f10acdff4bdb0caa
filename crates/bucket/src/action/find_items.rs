use std::marker::PhantomData;

use futures::stream::{StreamExt, TryStreamExt, once};
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::InvalidArgument;
use mongo_patterns_core::action::{ActionFuture, ActionStream, check_stream, of_call, run};
use mongo_patterns_core::conn::{Conn, bounded};
use mongo_patterns_core::pages::check_limit;
use mongo_patterns_core::send;
use mongo_patterns_core::{Error, Key, Result};
use mongodb::bson::{Document, RawDocument, doc};
use mongodb::options::AggregateOptions;
use serde::de::DeserializeOwned;

use crate::form::document::read_unwound;
use crate::query::across::{self, Explained, ItemFilter, found_items};
use crate::repository::{BucketRepository, Shared};
use crate::results::{FoundItem, ItemsPlan};
use crate::settings::Settings;

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
    /// A document is the key field, and the fields of the item in their order. Where an item has a field with the name of
    /// the key field, the key is returned. Items must be documents: the server's aggregation fails at any other item.
    /// Through a router, the server leaves out fields whose names begin with `$`, which [`find_items`](Self::find_items)
    /// returns.
    ///
    /// The filter is as for [`find_items`](Self::find_items), and selects buckets first, so that an index serves it. A
    /// `$match` of yours after the stages reads all buckets.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a filter with an operator in place of a field, except `$and`, `$or` and `$nor`.
    pub fn items_pipeline(&self, filter: Document) -> Result<Vec<Document>> {
        let settings = &self.shared().settings;
        let operation = self.shared().operation("items_pipeline");
        let filter = ItemFilter::new(settings, filter).map_err(|error| operation.name(error))?;
        Ok(filter.items(settings))
    }

    /// Finds items of all keys by their fields. Awaited it returns a `Vec`. [`stream`](FindItems::stream) returns a stream.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::{DateTime, doc};
    /// # async fn f(trades: BucketRepository<u32, i32>, since: DateTime) -> mongo_patterns::Result<()> {
    /// let filter = doc! { "ticker": "MDB", "date": { "$gte": since } };
    /// for trade in trades.find_items(filter).sort(doc! { "date": -1 }).limit(20).await? {
    ///     println!("{} bought {}", trade.key, trade.item);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The paths of the filter are relative to the item. The name of the key field filters keys. An item is found if it
    /// matches the whole filter. The logical operators are `$and`, `$or` and `$nor`.
    ///
    /// Without [`sort`](FindItems::sort) the order is undefined. Items of different buckets are not read at one moment.
    ///
    /// # Cost
    /// One round trip for a reply of 16 MiB. Without an index on fields of the items the server reads the whole collection:
    /// [`explain`](FindItems::explain) tells, and returns the fields of an index.
    ///
    /// # Errors
    /// - [`InvalidArgument`]: a filter that [`items_pipeline`](Self::items_pipeline) refuses, or a limit of 0.
    pub fn find_items(&self, filter: Document) -> FindItems<'_, K, T> {
        FindItems::create(self.shared(), filter, None, None, PhantomData)
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
    with session, max_time;

    /// Sets the order, by fields of the item or the key field. The server sorts all items that it finds, or keeps as many as
    /// the [limit](Self::limit).
    sort(sort: Document) => sort = Some(sort);

    /// Sets the most items to find, at least 1. All by default.
    limit(items: u32) => limit = Some(items);

    "find_items" => Vec<FoundItem<K, T>> where K: Key + 'a, T: DeserializeOwned + 'a
}

impl<'a, K: Key, T: 'a> FindItems<'a, K, T> {
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
    /// # Errors
    /// - [`InvalidArgument`]: there is a session. MongoDB explains nothing in a transaction.
    pub fn explain(self) -> ActionFuture<'a, ItemsPlan> {
        run(self.shared.operation("find_items"), async move {
            if self.session.is_some() {
                return Err(Error::new(
                    InvalidArgument,
                    "an explanation has no session, nothing was read: remove `session(..)`",
                ));
            }
            let (collection, settings) = self.shared.parts();
            let max_time = self.max_time.or(settings.max_time);
            let Search { filter, pipeline } = self.search()?;
            let aggregate = doc! { "aggregate": collection.name(), "pipeline": pipeline, "cursor": {} };
            let mut explain = doc! { "explain": aggregate, "verbosity": "executionStats" };
            if let Some(time) = max_time {
                explain.insert(
                    "maxTimeMS",
                    i64::try_from(bounded(time).as_millis()).unwrap_or(i64::MAX),
                );
            }
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

impl<'a, K: Key + 'a, T: DeserializeOwned + 'a> FindItems<'a, K, T> {
    /// Returns the items as a stream, which sends nothing before it is polled. With a session it ends with
    /// [`InvalidArgument`].
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::doc;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let mut found = trades.find_items(doc! { "ticker": "MDB" }).stream();
    /// while let Some(trade) = found.try_next().await? {
    ///     println!("{} bought {}", trade.key, trade.item);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(self) -> ActionStream<'a, FoundItem<K, T>>
    where
        T: Send,
    {
        let (shared, call) = (self.shared, self.shared.operation("find_items"));
        let mut options = options();
        options.max_time = self.max_time.or(shared.settings.max_time);
        let search = check_stream(self.session.as_deref()).and_then(|()| self.search());
        let open = async move { Ok(send::aggregate_rows(&shared.collection, search?.pipeline, options).await?) };
        let rows = once(run(call, open)).map_ok(|rows| rows.map_err(Error::from));
        of_call(call, rows.try_flatten().map(move |row| found(&shared.settings, &row?)))
    }

    async fn execute(mut self) -> Result<Vec<FoundItem<K, T>>> {
        let (collection, settings) = self.shared.parts();
        let (session, max_time) = (self.session.take(), self.max_time.or(settings.max_time));
        let pipeline = self.search()?.pipeline;
        let mut conn = Conn::to_read(session, max_time).await?;
        let rows = conn.aggregate_all(collection, pipeline, options()).await?;
        rows.iter().map(|row| found(settings, row)).collect()
    }
}

fn options() -> AggregateOptions {
    AggregateOptions::builder().allow_disk_use(true).build()
}

fn found<K: Key, T: DeserializeOwned>(settings: &Settings, row: &RawDocument) -> Result<FoundItem<K, T>> {
    let (key, item) = read_unwound(settings, row)?;
    Ok(FoundItem { key, item })
}
