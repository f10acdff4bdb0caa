//! Appends of many tasks to one key that go out together.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mongo_patterns_core::action::{ActionFuture, run};
use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, ErrorKind, Key, Result};
use mongodb::bson::DateTime;
use serde::Serialize;
use tokio::sync::oneshot;
use tracing::Span;

use crate::form::item::{self, Item};
use crate::repository::Shared;
use crate::write::batch::StoreMany;
use crate::write::key_write::Write;
use crate::{Appended, BucketRepository};

/// How many appends go out together at most: the memory and the time of one command are bounded by it.
const TOGETHER: usize = 1000;

/// Appends for many tasks of a process: what arrives for a key while a command for that key is under way goes out
/// together in the next one, and every caller gets its own result.
///
/// Made by [`BucketRepository::batching_writer`]. A clone is cheap and shares the queues.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::{Document, doc};
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let writer = trades.batching_writer();
/// let appends = (0..64).map(|n| {
///     let writer = writer.clone();
///     tokio::spawn(async move { writer.append(&123, &doc! { "qty": n }).await })
/// });
/// for appended in appends.collect::<Vec<_>>() {
///     appended.await.expect("no task panics")?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct BatchingWriter<K, T> {
    shared: Arc<Shared>,
    queues: Arc<Queues>,
    types: PhantomData<fn() -> (K, T)>,
}

/// What waits, by the text of the key. A key has an entry while a task writes for it.
#[derive(Default)]
struct Queues(Mutex<HashMap<String, Vec<Waiting>>>);

struct Waiting {
    item: Item,
    caller: oneshot::Sender<Result<Appended>>,
}

impl<K: Key, T> BucketRepository<K, T> {
    /// A writer that combines the appends of many tasks to one key. It pays where tasks of one process append to the
    /// same keys at the same time: with 64 tasks on one key, far below one round trip an append. A lone append is the
    /// same command as [`append`](Self::append).
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> Result<(), Box<dyn std::error::Error>> {
    /// let writer = trades.batching_writer(); // one for the process, and a clone of it for each task
    /// let of_task = writer.clone();
    /// let task = tokio::spawn(async move { of_task.append(&123, &419).await });
    /// writer.append(&123, &29).await?; // it may go out together with that of the task
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
    /// Appends an item to the history of a key. Items of one key are stored in the order in which their actions are
    /// first polled; reads return them in the order that [`append_many`](BucketRepository::append_many) describes.
    ///
    /// When it returns, the item is stored once, as by [`append`](BucketRepository::append). An item that cannot be
    /// stored fails alone: those that go out with it are tried again without it.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::{Document, doc};
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// let writer = trades.batching_writer();
    /// writer.append(&123, &doc! { "qty": 419 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Once its future was polled, a task of the writer stores the item also when the future is dropped. Only its
    /// result is lost: with an item id field, append it again to learn it. The appends of other callers are not
    /// affected.
    ///
    /// # Panics
    /// When it is awaited outside of a tokio runtime.
    ///
    /// # Errors
    /// Those of [`append`](BucketRepository::append).
    pub fn append<Q>(&self, key: &Q, item: &T) -> BatchedAppend<'_>
    where
        K: Borrow<Q>,
        Q: EncodeKey + ?Sized,
    {
        let key = key.encode_key().map_err(Error::from);
        BatchedAppend {
            shared: &self.shared,
            queues: &self.queues,
            input: key.map(|key| (key, Encoded::one(item))),
            time: None,
        }
    }
}

/// Appends one item together with those of other tasks; made by [`BatchingWriter::append`].
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::{Document, doc};
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// let writer = trades.batching_writer();
/// let (first, second) = (doc! { "qty": 419 }, doc! { "qty": 29 });
/// // Both go out by one command, in this order.
/// let appends = [&first, &second].map(|item| writer.append(&123, item).into_future());
/// for appended in futures::future::join_all(appends).await {
///     appended?;
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct BatchedAppend<'a> {
    shared: &'a Arc<Shared>,
    queues: &'a Arc<Queues>,
    input: Result<(EncodedKey, Result<Encoded>)>,
    time: Option<DateTime>,
}

impl BatchedAppend<'_> {
    /// The item's time, by which a bucket that it opens is named, instead of that of its time field or now.
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::{DateTime, Document, doc};
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// let writer = trades.batching_writer();
    /// writer.append(&123, &doc! { "qty": 419 }).at(DateTime::now()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn at(mut self, time: impl Into<DateTime>) -> Self {
        self.time = Some(time.into());
        self
    }

    async fn execute(self, span: Span) -> Result<Appended> {
        let (key, item) = self.input?;
        let with_key = |error: Error| error.with_key(key.text());
        let item = item.and_then(|item| Item::new(&self.shared.settings, item, self.time));
        let item = item.map_err(with_key)?;
        item::check_sizes(&self.shared.settings, std::slice::from_ref(&item)).map_err(with_key)?;
        let (caller, result) = oneshot::channel();
        if self.queues.join(&key, Waiting { item, caller }) {
            let writer = Writer {
                shared: Arc::clone(self.shared),
                queues: Arc::clone(self.queues),
                key: key.clone(),
                span,
                finished: false,
            };
            tokio::spawn(writer.run());
        }
        result.await.unwrap_or_else(|_| {
            let message = "the runtime ended under the append: the item may or may not be stored";
            Err(Error::new(ErrorKind::Network, message).with_key(key.text()))
        })
    }
}

impl<'a> IntoFuture for BatchedAppend<'a> {
    type Output = Result<Appended>;
    type IntoFuture = ActionFuture<'a, Appended>;

    fn into_future(self) -> Self::IntoFuture {
        run(self.shared.operation("batched append"), |span| self.execute(span))
    }
}

impl Queues {
    /// Queues an append. Returns whether no task writes for the key yet.
    fn join(&self, key: &EncodedKey, waiting: Waiting) -> bool {
        let mut queues = self.lock();
        if let Some(queue) = queues.get_mut(key.text()) {
            queue.push(waiting);
            return false;
        }
        queues.insert(key.text().to_owned(), vec![waiting]);
        true
    }

    /// How many wait.
    fn waiting(&self, key: &EncodedKey) -> usize {
        self.lock().get(key.text()).map_or(0, Vec::len)
    }

    /// What goes out next. When nothing waits the key has no writer from then on.
    fn next(&self, key: &EncodedKey) -> Vec<Waiting> {
        let mut queues = self.lock();
        let Some(queue) = queues.get_mut(key.text()) else {
            return Vec::new();
        };
        if queue.is_empty() {
            queues.remove(key.text());
            return Vec::new();
        }
        let together = queue.len().min(TOGETHER);
        queue.drain(..together).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an error can be that of one item of a batch, so that the others are worth another try.
fn is_of_an_item(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TooLarge | ErrorKind::DuplicateKey | ErrorKind::InvalidArgument | ErrorKind::Driver
    ) && !error.is_outcome_unknown()
}

/// The task that writes for a key while appends wait. It belongs to none of the callers, so any of them may go away.
struct Writer {
    shared: Arc<Shared>,
    queues: Arc<Queues>,
    key: EncodedKey,
    span: Span,
    /// Whether it has left its key to the next one.
    finished: bool,
}

/// A task that ends early, with its runtime, must not leave its key without a writer: who waits is told, and the next
/// append starts a new one.
impl Drop for Writer {
    fn drop(&mut self) {
        if !self.finished {
            self.queues.lock().remove(self.key.text());
        }
    }
}

impl Writer {
    async fn run(mut self) {
        loop {
            self.gather().await;
            let waiting = self.queues.next(&self.key);
            if waiting.is_empty() {
                self.finished = true;
                return;
            }
            let (items, callers): (Vec<Item>, Vec<_>) = waiting
                .into_iter()
                .map(|waiting| (waiting.item, waiting.caller))
                .unzip();
            let results = self.store(&items).await;
            for (caller, result) in callers.into_iter().zip(results) {
                // A caller that has gone away does not want to know.
                let _ = caller.send(result);
            }
        }
    }

    /// Lets other tasks run as long as they queue more. Those that were answered by the last command are awake by now,
    /// and would else find the next one gone with the few that were first.
    async fn gather(&self) {
        let mut before = self.queues.waiting(&self.key);
        while before < TOGETHER {
            tokio::task::yield_now().await;
            let now = self.queues.waiting(&self.key);
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// The result of each item, in order.
    async fn store(&self, items: &[Item]) -> Vec<Result<Appended>> {
        let mut results = Vec::with_capacity(items.len());
        let mut rest = items;
        // How many go out together. After a failure it is one, to find whose item it is.
        let mut together = items.len();
        while !rest.is_empty() {
            let batch = &rest[..together.min(rest.len())];
            let (stored, outcome) = self.store_batch(batch).await;
            let mut done = stored.len();
            results.extend(stored.into_iter().map(Ok));
            if let Err(error) = outcome {
                let left = batch.len() - done;
                let failed = if left == 1 || !is_of_an_item(&error) { left } else { 0 };
                results.extend((0..failed).map(|_| Err(error.clone())));
                done += failed;
                together = 1;
            }
            rest = &rest[done..];
        }
        results
    }

    /// What became of a prefix of the batch, and the error that ended it.
    async fn store_batch(&self, batch: &[Item]) -> (Vec<Appended>, Result<()>) {
        if let Err(error) = item::check_sizes(&self.shared.settings, batch) {
            return (Vec::new(), Err(error));
        }
        let write = Write {
            shared: &self.shared,
            key: &self.key,
        };
        let mut store = StoreMany::new(write, &self.span, batch);
        let outcome = store.run(None).await;
        let outcome = outcome.map_err(|error| error.with_key(self.key.text()));
        let appended = |place| Appended {
            opened: None,
            already_there: store.repeated.contains(&place),
        };
        ((0..store.stored()).map(appended).collect(), outcome)
    }
}

impl<K, T> Clone for BatchingWriter<K, T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            queues: Arc::clone(&self.queues),
            types: PhantomData,
        }
    }
}

impl<K, T> fmt::Debug for BatchingWriter<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchingWriter")
            .field("collection", &self.shared.collection.namespace())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for BatchedAppend<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchedAppend").finish_non_exhaustive()
    }
}
