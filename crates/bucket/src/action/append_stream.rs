use std::pin::Pin;

use futures::{Stream, StreamExt};
use mongo_patterns_core::ErrorKind::InvalidArgument;
#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Encode, InvalidItemId, InvalidKey, InvalidTime};
use mongo_patterns_core::{Error, Key, Result};
use serde::Serialize;
use tracing::Span;

use crate::repository::{BucketRepository, Shared};
use crate::results::{AppendProgress, AppendedMany};
use crate::write::sink::{OnProgress, Sink};

impl<K: Key, T: Serialize> BucketRepository<K, T> {
    /// Appends a stream of items of any keys: stores the items of each key as [`append_many`](Self::append_many) does,
    /// several keys concurrently.
    ///
    /// Items of one key are stored in the order of the stream. Memory is bounded: the stream is read as fast as items are
    /// stored.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let items = futures::stream::iter([(123, 419), (456, 50), (123, 29)]);
    /// let append = trades.append_stream(items).concurrency(2).buffer_bytes(16 * 1024 * 1024);
    /// let appended = append.on_progress(|at| println!("{} of {} stored", at.stored, at.read)).await?;
    /// assert_eq!(appended.items, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// The cost of [`append_many`](Self::append_many), for each key and each time that the buffer is full. A stream that is
    /// sorted by key, or a larger buffer, needs fewer round trips. A key with 1000 pages or 16 MiB is sent at once.
    ///
    /// # Cancel safety
    /// Of each key, a prefix of its items is stored. Items that were read and not stored are dropped. With an item id field,
    /// call it again with the whole stream. Without one, a second call can store items twice.
    ///
    /// # Errors
    /// - The errors of [`append_many`](Self::append_many). The first one ends the call, and of each key a prefix of its
    ///   items is stored. [`key`](Error::key) is the key that failed. [`stored_count`](Error::stored_count) is the position
    ///   in the stream, from 0, of its first item that is not stored.
    /// - [`InvalidKey`], [`InvalidTime`], [`InvalidItemId`], [`Encode`], [`InvalidArgument`]: an item cannot be appended.
    ///   All items before it are stored, and [`stored_count`](Error::stored_count) is its position.
    pub fn append_stream<'a, S>(&'a self, items: S) -> AppendStream<'a, K, T>
    where
        S: Stream<Item = (K, T)> + Send + 'a,
    {
        AppendStream {
            shared: self.shared(),
            items: Box::pin(items),
            concurrency: 8,
            buffer_bytes: 64 * 1024 * 1024,
            on_progress: None,
        }
    }
}

mongo_patterns_core::action! {
    /// Appends a stream of items; returned by [`BucketRepository::append_stream`].
    pub struct AppendStream<'a, K, T> {
        shared: &'a Shared,
        items: Pin<Box<dyn Stream<Item = (K, T)> + Send + 'a>>,
        concurrency: usize,
        buffer_bytes: usize,
        on_progress: Option<OnProgress<'a>>,
    }
    "append_stream" => AppendedMany where K: Key, T: Serialize + 'a
}

impl<'a, K, T> AppendStream<'a, K, T> {
    mongo_patterns_core::setters! {
        /// Sets the most keys that are written concurrently; 8 by default.
        concurrency(keys: usize) => concurrency = keys;
        /// Sets the most bytes of items in memory, as BSON; 64 MiB by default.
        buffer_bytes(bytes: usize) => buffer_bytes = bytes;
        /// Sets a progress callback, which is called after each group of items.
        on_progress(call: impl FnMut(AppendProgress) + Send + 'a) => on_progress = Some(Box::new(call));
    }

    async fn execute(self) -> Result<AppendedMany>
    where
        K: Key,
        T: Serialize,
    {
        let span = Span::current();
        if self.concurrency == 0 || self.buffer_bytes == 0 {
            return Err(Error::new(
                InvalidArgument,
                "the concurrency or the buffer of the stream is 0, nothing was stored: set both to 1 or more",
            ));
        }
        let sink = Sink::new(self.shared, &span, self.buffer_bytes, self.on_progress);
        sink.store_all(self.items.fuse(), self.concurrency).await
    }
}
