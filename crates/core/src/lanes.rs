//! Lanes: each document has a queue of the calls that write it, with one write in flight.
//!
//! # Design
//!
//! ## Why does a process queue what the server orders anyway?
//!
//! A write that meets another write waits on the server, and keeps a connection of the pool. A few callers of one locked
//! document could take all connections, and the transaction that locks the document would wait for one. With a lane, a
//! document has one connection at most, and after a crash the server has one command of it. Transactions of one process on
//! one document never conflict. A caller that is dropped while it waits leaves the queue, with no effect.
//!
//! ## How long does a call keep its lane?
//!
//! Until the reply of its last command, also when its future was dropped: each command in flight has a clone of the
//! [`Lane`].
//!
//! ## What do lanes guarantee?
//!
//! Nothing. They save waiting. Other processes do not see them, and correctness never depends on them.

pub mod hints;
mod joined;
mod repositories;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use mongodb::Collection;
use mongodb::bson::RawDocumentBuf;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::joined::{BatchOutcome, Entered, Joined, Target};
use self::repositories::Repository;
use crate::measure;

/// The lanes of a repository. A clone shares them.
#[derive(Clone)]
pub struct Lanes(Arc<Inner>);

struct Inner {
    /// A document has an entry while a call has its lane or waits for it.
    lanes: Mutex<HashMap<String, Arc<Semaphore>>>,
    collection: Arc<str>,
    _repository: Repository,
}

/// Prints no key, which is a user value.
impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").finish_non_exhaustive()
    }
}

/// The lanes of a call, which are free again when the last clone is dropped.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    _held: Option<Arc<Vec<HeldLane>>>,
}

impl Lane {
    fn of(held: Vec<HeldLane>) -> Self {
        let _held = Some(Arc::new(held));
        Self { _held }
    }
}

/// The lane of one document. The fields are dropped in this order.
struct HeldLane {
    _permit: OwnedSemaphorePermit,
    _queued: QueuedCall,
}

impl fmt::Debug for HeldLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldLane").finish_non_exhaustive()
    }
}

/// A call in the queue of a document, or at its head.
struct QueuedCall {
    lanes: Lanes,
    key: String,
    semaphore: Arc<Semaphore>,
}

impl Drop for QueuedCall {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock();
        // Only the map and this call have it.
        if Arc::strong_count(&self.semaphore) == 2 {
            lanes.remove(&self.key);
        }
    }
}

impl Lanes {
    /// Creates the lanes of a repository.
    pub fn new(collection: &Collection<RawDocumentBuf>) -> Self {
        let namespace = collection.namespace();
        Self(Arc::new(Inner {
            lanes: Mutex::default(),
            collection: namespace.coll.as_str().into(),
            _repository: Repository::register(namespace.to_string()),
        }))
    }

    fn collection(&self) -> &Arc<str> {
        &self.0.collection
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Semaphore>>> {
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, key: &str) -> QueuedCall {
        let mut lanes = self.lock();
        let semaphore = match lanes.get(key) {
            Some(semaphore) => Arc::clone(semaphore),
            None => {
                let semaphore = Arc::new(Semaphore::new(1));
                lanes.insert(key.to_owned(), Arc::clone(&semaphore));
                semaphore
            }
        };
        drop(lanes);
        QueuedCall {
            lanes: self.clone(),
            key: key.to_owned(),
            semaphore,
        }
    }

    /// Waits for the lane of a document, in the order of the calls.
    pub fn enter<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Lane> {
        Box::pin(async { Lane::of(vec![self.hold(key).await]) })
    }

    /// Takes the lane of a document if no other call has it or waits for it.
    pub fn try_enter(&self, key: &str) -> Option<Lane> {
        let held = self.queue(key).take()?;
        Some(Lane::of(vec![held]))
    }

    /// Waits for the lanes of several documents. Every task takes them in the same order, so that none waits in a circle.
    pub fn enter_all(&self, keys: BTreeSet<String>) -> BoxFuture<'_, Lane> {
        Box::pin(async move {
            let mut held = Vec::with_capacity(keys.len());
            for key in &keys {
                held.push(self.hold(key).await);
            }
            Lane::of(held)
        })
    }

    /// Waits for the lane of a document, for calls that are counted as waiting themselves.
    fn enter_for_others<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Lane> {
        Box::pin(async {
            let held = match self.queue(key).try_take() {
                Ok(held) => held,
                Err(queued) => queued.wait().await,
            };
            Lane::of(vec![held])
        })
    }

    async fn hold(&self, key: &str) -> HeldLane {
        let queued = match self.queue(key).try_take() {
            Ok(held) => return held,
            Err(queued) => queued,
        };
        let _waiting = measure::Waiting::begin(&self.0.collection);
        queued.wait().await
    }
}

impl QueuedCall {
    async fn wait(self) -> HeldLane {
        loop {
            // The semaphore is never closed.
            if let Ok(permit) = Arc::clone(&self.semaphore).acquire_owned().await {
                return HeldLane {
                    _permit: permit,
                    _queued: self,
                };
            }
        }
    }

    fn take(self) -> Option<HeldLane> {
        self.try_take().ok()
    }

    fn try_take(self) -> Result<HeldLane, Self> {
        match Arc::clone(&self.semaphore).try_acquire_owned() {
            Ok(permit) => Ok(HeldLane {
                _permit: permit,
                _queued: self,
            }),
            Err(_) => Err(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    impl Lanes {
        /// Lanes of a test without a server.
        pub(super) fn of_test() -> Self {
            Self(Arc::new(Inner {
                lanes: Mutex::default(),
                collection: "test".into(),
                _repository: Repository::register(format!("test.{:?}", std::thread::current().id())),
            }))
        }
    }

    #[test]
    fn a_lane_is_free_when_the_last_clone_is_dropped() {
        let lanes = Lanes::of_test();
        let lane = lanes.enter("a").now_or_never().unwrap();
        let clone = lane.clone();
        drop(lane);
        assert!(lanes.enter("a").now_or_never().is_none());
        assert!(lanes.try_enter("a").is_none());
        assert!(
            lanes.enter("b").now_or_never().is_some(),
            "another document has its own lane"
        );
        drop(clone);
        assert!(lanes.enter("a").now_or_never().is_some());
        assert!(lanes.lock().is_empty(), "a free document has no entry");
    }

    #[test]
    fn a_dropped_call_leaves_the_queue_and_the_others_keep_their_order() {
        let lanes = Lanes::of_test();
        let lane = lanes.enter("a").now_or_never().unwrap();
        let mut first = Box::pin(lanes.enter("a"));
        let mut dropped = Box::pin(lanes.enter("a"));
        let mut last = Box::pin(lanes.enter("a"));
        for waiting in [&mut first, &mut dropped, &mut last] {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        drop(dropped);
        drop(lane);
        assert!(last.as_mut().now_or_never().is_none(), "the first comes first");
        let lane = first.now_or_never().unwrap();
        assert!(lanes.try_enter("a").is_none(), "a call waits");
        drop(lane);
        drop(last.now_or_never().unwrap());
        assert!(lanes.lock().is_empty());
    }

    #[test]
    fn several_documents_are_entered_once_each() {
        let lanes = Lanes::of_test();
        let keys = BTreeSet::from(["b", "a", "b"].map(str::to_owned));
        let lane = lanes.enter_all(keys).now_or_never().unwrap();
        assert!(lanes.try_enter("a").is_none() && lanes.try_enter("b").is_none());
        drop(lane);
        assert!(lanes.lock().is_empty());
    }
}
