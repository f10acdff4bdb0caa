//! The batching of appends that many tasks make to one key.
//!
//! # Design
//!
//! ## Why does the writer yield before each command?
//!
//! The callers that the last command answered are awake by then, and their next items join the next command. Without
//! the yield, the few that were first would be sent without the others.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::form::item::{Item, check_sizes};
use crate::prelude::*;
use crate::repository::Shared;
use crate::results::Appended;
use crate::write::batch::StoreBatch;
use crate::write::key_write::KeyWrite;

/// The most appends of one command, which bounds its memory and time.
const ITEMS_OF_A_COMMAND: usize = 1000;

/// Appends for many tasks of a process, in batches.
///
/// Items that arrive for a key while a command for that key is running are sent together in the next command. Every
/// caller gets its own result.
///
/// [`batching_writer`](crate::BucketRepository::batching_writer) creates it. A clone is cheap, and shares the queues.
pub struct BatchingWriter<K, T> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) types: PhantomData<fn() -> (K, T)>,
}

mongo_patterns_core::clone_fields!(BatchingWriter<K, T>, shared, queues, types);
mongo_patterns_core::redacted_debug!(BatchingWriter<K, T>, |writer| "collection" = writer.shared.collection.namespace());

/// Appends an item in a batch with those of other tasks.
pub(crate) async fn append(
    shared: &Arc<Shared>,
    queues: &Arc<Queues>,
    key: &EncodedKey,
    item: Item,
    span: Span,
) -> Result<Appended> {
    check_sizes(&shared.settings, std::slice::from_ref(&item))?;
    let (caller, result) = oneshot::channel();
    if queues.join(key, Waiting { item, caller }) {
        let writer = Writer {
            shared: Arc::clone(shared),
            queues: Arc::clone(queues),
            key: key.clone(),
            span,
            finished: false,
        };
        tokio::spawn(writer.run());
    }
    result.await.unwrap_or_else(|_| {
        let message = "the tokio runtime of the writer ended, the item may or may not be stored: append it again";
        Err(Error::new(ErrorKind::Network, message))
    })
}

/// The waiting appends of each key. A key has an entry while a task writes for it.
#[derive(Default)]
pub(crate) struct Queues(Mutex<HashMap<String, Vec<Waiting>>>);

struct Waiting {
    item: Item,
    caller: oneshot::Sender<Result<Appended>>,
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

    /// Returns the number of waiting appends.
    fn waiting(&self, key: &EncodedKey) -> usize {
        self.lock().get(key.text()).map_or(0, Vec::len)
    }

    /// Takes the appends of the next command. If none waits, the key has no writer from then on.
    fn next(&self, key: &EncodedKey) -> Vec<Waiting> {
        let mut queues = self.lock();
        let Some(queue) = queues.get_mut(key.text()) else {
            return Vec::new();
        };
        if queue.is_empty() {
            queues.remove(key.text());
            return Vec::new();
        }
        let next = queue.len().min(ITEMS_OF_A_COMMAND);
        queue.drain(..next).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether one item of a batch can be the cause of an error, so that the others are worth another attempt.
fn is_of_one_item(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TooLarge | ErrorKind::DuplicateKey | ErrorKind::InvalidArgument | ErrorKind::Driver
    ) && !error.is_outcome_unknown()
}

/// The task that writes for a key while appends wait. It belongs to no caller, so every caller can be dropped.
struct Writer {
    shared: Arc<Shared>,
    queues: Arc<Queues>,
    key: EncodedKey,
    span: Span,
    /// Whether it has removed the entry of its key.
    finished: bool,
}

/// A task that ends early, with its runtime, must not leave an entry without a writer. The waiting callers get an
/// error, and the next append starts a new task.
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
            let waiting = waiting.into_iter().map(|waiting| (waiting.item, waiting.caller));
            let (items, callers): (Vec<Item>, Vec<_>) = waiting.unzip();
            let results = self.store(&items).await;
            for (caller, result) in callers.into_iter().zip(results) {
                // The caller may have been dropped.
                let _ = caller.send(result);
            }
        }
    }

    /// Yields to other tasks as long as they queue more appends.
    async fn gather(&self) {
        let mut before = self.queues.waiting(&self.key);
        while before < ITEMS_OF_A_COMMAND {
            tokio::task::yield_now().await;
            let now = self.queues.waiting(&self.key);
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// Stores the items. Returns the result of each, in order.
    async fn store(&self, items: &[Item]) -> Vec<Result<Appended>> {
        let mut results = Vec::with_capacity(items.len());
        let mut rest = items;
        // After a failure items are sent one by one, to find the one that causes it.
        let mut length = items.len();
        while !rest.is_empty() {
            let batch = &rest[..length.min(rest.len())];
            let (stored, outcome) = self.store_batch(batch).await;
            let mut done = stored.len();
            results.extend(stored.into_iter().map(Ok));
            if let Err(error) = outcome {
                let left = batch.len() - done;
                let failed = if left == 1 || !is_of_one_item(&error) { left } else { 0 };
                results.extend((0..failed).map(|_| Err(error.clone())));
                done += failed;
                length = 1;
            }
            rest = &rest[done..];
        }
        results
    }

    /// Stores a batch. Returns the results of a prefix of it, and the error that ended it.
    async fn store_batch(&self, batch: &[Item]) -> (Vec<Appended>, Result<()>) {
        if let Err(error) = check_sizes(&self.shared.settings, batch) {
            return (Vec::new(), Err(error));
        }
        let (shared, key) = (&*self.shared, &self.key);
        let mut store = StoreBatch::new(KeyWrite { shared, key }, &self.span, batch);
        let outcome = store.run(None).await;
        let appended = |position| Appended {
            opened: None,
            already_there: store.repeated.contains(&position),
        };
        ((0..store.stored()).map(appended).collect(), outcome)
    }
}
