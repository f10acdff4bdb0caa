//! Calls for one document that wait for its lane join: one command stores the items of all.
//!
//! # Design
//!
//! ## What does a call send that meets no other?
//!
//! The manual's command, by itself, at once. It joins only what has to wait anyway.
//!
//! ## Why does a task of its own send the batches?
//!
//! Every caller can be dropped, and a batch has the items of several callers.
//!
//! ## Why does the writer yield before each command?
//!
//! The callers of the last command are awake by then, and their next items join the next command.
//!
//! ## Why is a failed batch divided?
//!
//! One item can be the cause. With halves, a few commands find it among a thousand, and the others are stored.
//!
//! ## What if the runtime of the task ends before its callers' do?
//!
//! The task returns the items that it has not sent, and their calls start again, in their own runtimes. Only the outcome of
//! the command in flight is unknown.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{Lane, Lanes};
use crate::error::{Error, ErrorKind, Result};
use crate::{measure, tasks};

/// What the items of one document are stored in.
pub trait Target: Send + Sync + 'static {
    /// An item, encoded.
    type Item: Send + Sync + 'static;
    /// The result of a caller.
    type Output: Send + 'static;

    /// The most items of a batch, which bounds its memory and time.
    const ITEMS: usize = 1000;
    /// The most bytes of a batch of several items. Without it, the target divides a batch into commands itself.
    const MAX_BYTES: usize = usize::MAX;
    /// The text of the error when the runtime of the task ends while the command with the item is in flight.
    const INTERRUPTED: &'static str;

    /// Returns the bytes of an item.
    fn bytes(item: &Self::Item) -> usize;

    /// Stores a batch, in order, in the lane of its document.
    fn store(&self, items: &[Self::Item], lane: Lane) -> impl Future<Output = BatchOutcome<Self::Output>> + Send;
}

/// The outcome of a batch.
#[derive(Debug)]
pub struct BatchOutcome<T> {
    /// The results of the stored items: a prefix of the batch.
    pub results: Vec<Result<T>>,
    /// The error of the others. Without one, the others are stored by a further batch: `results` are not empty then.
    pub error: Option<Error>,
}

/// How a call stores its item.
pub enum Entered<T: Target> {
    /// By itself: no other call had the lane.
    Alone(Lane, T::Item),
    /// It was stored together with the items of other calls.
    Joined(Result<T::Output>),
}

/// Prints no item, which is a user value.
impl<T: Target> fmt::Debug for Entered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").finish_non_exhaustive()
    }
}

/// Lanes in which the items of waiting calls join.
pub struct Joined<T: Target> {
    lanes: Lanes,
    queues: Mutex<Queues<T>>,
}

/// The waiting items of each document. A document has an entry while a task writes for it.
struct Queues<T: Target> {
    of: HashMap<Vec<u8>, BTreeMap<u64, Waiting<T>>>,
    /// The number of the next item.
    next: u64,
}

struct Waiting<T: Target> {
    item: T::Item,
    caller: oneshot::Sender<Reply<T>>,
}

/// What the task tells a caller.
enum Reply<T: Target> {
    Stored(Result<T::Output>),
    /// The task ends, and no command had the item.
    Unsent(T::Item),
}

/// Prints no key and no item, which are user values.
impl<T: Target> fmt::Debug for Joined<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").finish_non_exhaustive()
    }
}

/// A call whose item waits. Dropped, it takes the item out of the queue, unless a batch has it.
struct Caller<'a, T: Target> {
    joined: &'a Joined<T>,
    queue: &'a [u8],
    number: u64,
}

impl<T: Target> Drop for Caller<'_, T> {
    fn drop(&mut self) {
        if let Some(queue) = self.joined.lock().of.get_mut(self.queue) {
            queue.remove(&self.number);
        }
    }
}

impl<T: Target> Joined<T> {
    /// Lets calls join in the lanes of a repository.
    pub fn new(lanes: Lanes) -> Self {
        let (of, next) = (HashMap::new(), 0);
        let queues = Mutex::new(Queues { of, next });
        Self { lanes, queues }
    }

    /// Takes the lane of a document if it is free. Otherwise the item waits, and is stored in a batch with items of other
    /// calls.
    ///
    /// Items of one document are stored in the order in which they are queued, at the first poll. `queue` identifies the
    /// document, and must not be shared by two targets; the text `key` may be.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// An item that waits is not stored if the future is dropped. A batch is stored as long as one of its callers waits.
    pub async fn enter(
        self: &Arc<Self>,
        key: &str,
        queue: impl Fn() -> Vec<u8> + Send + Sync,
        mut item: T::Item,
        target: impl Fn() -> T + Send + Sync,
    ) -> Entered<T> {
        loop {
            if let Some(lane) = self.lanes.try_enter(key) {
                return Entered::Alone(lane, item);
            }
            match self.wait(key, queue(), item, &target).await {
                Reply::Stored(stored) => return Entered::Joined(stored),
                Reply::Unsent(unsent) => item = unsent,
            }
        }
    }

    /// Queues an item, and waits for the task that writes for its document, which it starts if there is none.
    async fn wait(
        self: &Arc<Self>,
        key: &str,
        queue: Vec<u8>,
        item: T::Item,
        target: &(impl Fn() -> T + Send + Sync),
    ) -> Reply<T> {
        let (caller, reply) = oneshot::channel();
        let (number, is_first) = self.join(&queue, Waiting { item, caller });
        if is_first {
            let writer = Writer {
                joined: Arc::clone(self),
                key: key.to_owned(),
                queue: queue.clone(),
                target: target(),
                finished: false,
            };
            tasks::spawn(&Handle::current(), measure::inherit(writer.run()));
        }
        let _caller = Caller {
            joined: self,
            queue: &queue,
            number,
        };
        let _waiting = measure::Waiting::begin(self.lanes.collection());
        let interrupted = |_| Reply::Stored(Err(Error::new(ErrorKind::Network, T::INTERRUPTED)));
        reply.await.unwrap_or_else(interrupted)
    }

    /// Queues an item. Returns its number, and whether no task writes for the document yet.
    fn join(&self, queue: &[u8], waiting: Waiting<T>) -> (u64, bool) {
        let mut queues = self.lock();
        let number = queues.next;
        queues.next += 1;
        if let Some(queue) = queues.of.get_mut(queue) {
            queue.insert(number, waiting);
            return (number, false);
        }
        queues.of.insert(queue.to_owned(), BTreeMap::from([(number, waiting)]));
        (number, true)
    }

    /// Returns the number of waiting items.
    fn waiting(&self, queue: &[u8]) -> usize {
        self.lock().of.get(queue).map_or(0, BTreeMap::len)
    }

    /// Takes the items of the next batch. If none waits, the document has no writer from then on.
    fn next(&self, queue: &[u8]) -> Vec<Waiting<T>> {
        let mut queues = self.lock();
        let Some(waiting) = queues.of.get_mut(queue) else {
            return Vec::new();
        };
        if waiting.is_empty() {
            queues.of.remove(queue);
            return Vec::new();
        }
        let mut bytes = 0_usize;
        let fitting = waiting.values().take(T::ITEMS).take_while(|waiting| {
            bytes = bytes.saturating_add(T::bytes(&waiting.item));
            bytes <= T::MAX_BYTES
        });
        let next = fitting.count().max(1);
        (0..next)
            .filter_map(|_| waiting.pop_first())
            .map(|(_, next)| next)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Queues<T>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that writes for a document while items wait.
struct Writer<T: Target> {
    joined: Arc<Joined<T>>,
    key: String,
    queue: Vec<u8>,
    target: T,
    /// Whether it has removed the entry of its document.
    finished: bool,
}

/// A task that ends early must not leave an entry without a writer. The waiting callers get their items back.
impl<T: Target> Drop for Writer<T> {
    fn drop(&mut self) {
        if !self.finished {
            let waiting = self.joined.lock().of.remove(&self.queue);
            waiting
                .into_iter()
                .flatten()
                .for_each(|(_, waiting)| waiting.give_back());
        }
    }
}

impl<T: Target> Waiting<T> {
    fn give_back(self) {
        // The caller may have been dropped.
        let _ = self.caller.send(Reply::Unsent(self.item));
    }
}

/// The items that a task stores. Dropped early, it gives back the items that no command had.
struct Batch<T: Target> {
    items: Vec<T::Item>,
    callers: Vec<oneshot::Sender<Reply<T>>>,
    /// The number of items that a command had.
    sent: usize,
}

impl<T: Target> Batch<T> {
    fn of(waiting: Vec<Waiting<T>>) -> Self {
        let waiting = waiting.into_iter().map(|waiting| (waiting.item, waiting.caller));
        let (items, callers) = waiting.unzip();
        Self {
            items,
            callers,
            sent: 0,
        }
    }
}

impl<T: Target> Drop for Batch<T> {
    fn drop(&mut self) {
        let callers = self.callers.drain(..).skip(self.sent);
        for (caller, item) in callers.zip(self.items.drain(..).skip(self.sent)) {
            Waiting { item, caller }.give_back();
        }
    }
}

impl<T: Target> Writer<T> {
    async fn run(mut self) {
        loop {
            // Between two batches, the calls that cannot join have their turns.
            let lane = self.joined.lanes.enter_for_others(&self.key).await;
            self.gather().await;
            let waiting = self.joined.next(&self.queue);
            if waiting.is_empty() {
                self.finished = true;
                return;
            }
            measure::joined(self.joined.lanes.collection(), waiting.len());
            let mut batch = Batch::of(waiting);
            let results = tokio::select! {
                biased;
                // As the call of one item, a batch ends when no caller waits for it.
                () = all_dropped(&mut batch.callers) => continue,
                results = self.store(&batch.items, &mut batch.sent, lane) => results,
            };
            for (caller, result) in batch.callers.drain(..).zip(results) {
                // The caller may have been dropped.
                let _ = caller.send(Reply::Stored(result));
            }
        }
    }

    /// Yields to other tasks as long as they queue more items.
    async fn gather(&self) {
        let mut before = self.joined.waiting(&self.queue);
        while before < T::ITEMS {
            tokio::task::yield_now().await;
            let now = self.joined.waiting(&self.queue);
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// Stores the items, and counts those that it has sent. Returns the result of each, in order.
    async fn store(&self, items: &[T::Item], sent: &mut usize, lane: Lane) -> Vec<Result<T::Output>> {
        let mut results = Vec::with_capacity(items.len());
        let mut rest = items;
        let mut length = items.len();
        while !rest.is_empty() {
            let batch = &rest[..length.min(rest.len())];
            *sent = results.len() + batch.len();
            let BatchOutcome { results: stored, error } = self.target.store(batch, lane.clone()).await;
            let mut done = stored.len();
            results.extend(stored);
            length = length.saturating_mul(2);
            if let Some(error) = error {
                let left = batch.len() - done;
                let failed = if left == 1 || !error.can_be_of_one_document() {
                    left
                } else {
                    0
                };
                results.extend((0..failed).map(|_| Err(error.clone())));
                done += failed;
                length = (left / 2).max(1);
            }
            rest = &rest[done..];
        }
        results
    }
}

/// Waits until all callers have been dropped.
async fn all_dropped<T>(callers: &mut [oneshot::Sender<T>]) {
    for caller in callers {
        caller.closed().await;
    }
}
