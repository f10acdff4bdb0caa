use std::sync::Arc;

use mongo_patterns_core::batching::Queues;

use crate::action::prelude::*;
use crate::form::item::Item;
use crate::results::Appended;
use crate::write::batching::{self, BatchingWriter, History};

impl<K: Key, T> BucketRepository<K, T> {
    /// Creates a writer that sends the appends of many tasks to one key in batches.
    ///
    /// Use it where tasks of one process append to the same keys concurrently. With 64 tasks on one key, it needs far
    /// less than one round trip for each append. A single append is the same command as [`append`](Self::append).
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> Result<(), Box<dyn std::error::Error>> {
    /// let writer = trades.batching_writer(); // one for the process, and a clone of it for each task
    /// let of_task = writer.clone();
    /// let task = tokio::spawn(async move { of_task.append(&123, &419).await });
    /// writer.append(&123, &29).await?; // may be sent in one command with the append of the task
    /// task.await??;
    /// # Ok(())
    /// # }
    /// ```
    pub fn batching_writer(&self) -> BatchingWriter<K, T> {
        BatchingWriter {
            shared: self.share(),
            queues: Arc::default(),
            types: PhantomData,
        }
    }
}

impl<K: Key, T: Serialize> BatchingWriter<K, T> {
    /// Appends an item to the history of a key.
    ///
    /// Items of one key are stored in the order in which their actions are first polled. Reads return them in the order
    /// that [`append_many`](BucketRepository::append_many) describes.
    ///
    /// When it returns, the item is stored once, as by [`append`](BucketRepository::append). An item that cannot be
    /// stored fails alone: the other items of its batch are retried without it.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// let writer = trades.batching_writer();
    /// let (first, second) = (doc! { "qty": 419 }, doc! { "qty": 29 });
    /// // One command sends both, in this order.
    /// let appends = [&first, &second].map(|item| writer.append(&123, item).into_future());
    /// for appended in futures::future::join_all(appends).await {
    ///     appended?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// After the first poll of its future, a task of the writer stores the item also when the future is dropped. Only
    /// its result is lost: with an item id field, append the item again to learn it. The appends of other callers are
    /// not affected.
    ///
    /// # Panics
    /// When it is awaited outside of a tokio runtime.
    ///
    /// # Errors
    /// Those of [`append`](BucketRepository::append).
    pub fn append<Q: EncodeKey + ?Sized>(&self, key: &Q, item: &T) -> BatchedAppend<'_>
    where
        K: Borrow<Q>,
    {
        BatchedAppend {
            shared: &self.shared,
            queues: &self.queues,
            key: key.encode_key().map_err(Error::from),
            item: Encoded::one(item),
            time: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Appends one item in a batch with those of other tasks; returned by [`BatchingWriter::append`].
    pub struct BatchedAppend<'a> {
        shared: &'a Arc<Shared>,
        queues: &'a Arc<Queues<History>>,
        key: Result<EncodedKey>,
        item: Result<Encoded>,
        time: Option<DateTime>,
    }
    "batched append"(span) => Appended
}

impl BatchedAppend<'_> {
    mongo_patterns_core::setters! {
        /// Sets the time of the item, which names a bucket that it opens, in place of its time field or now.
        /// With [windows](crate::BucketRepositoryBuilder::window) it must be in the window of the time field.
        at(time: impl Into<DateTime>) => time = Some(time.into());
    }

    async fn execute(self, span: Span) -> Result<Appended> {
        let (shared, key) = (self.shared, self.key?);
        let item = self.item.and_then(|item| Item::new(&shared.settings, item, self.time));
        let appended = match item {
            Ok(item) => batching::append(shared, self.queues, &key, item, span).await,
            Err(error) => Err(error),
        };
        appended.map_err(|error| error.with_key(key.text()))
    }
}
