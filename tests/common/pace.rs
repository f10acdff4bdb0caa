//! Writers beside another task, which allows them a bounded number of writes at a time.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::common::support::pause;

/// The writes that a task allows its writers. Without a bound they outrun a slow reader, each of whose reads then has more
/// to read: the test would take ever longer, and ever more memory.
#[derive(Clone, Debug)]
pub struct Pace(Arc<Semaphore>);

impl Pace {
    /// Allows this number of writes.
    pub fn of(writes: usize) -> Self {
        Self(Arc::new(Semaphore::new(writes)))
    }

    /// Allows more writes.
    pub fn add(&self, writes: usize) {
        self.0.add_permits(writes);
    }

    /// Waits until some of the allowed writes have begun, and allows more: neither side outruns the other.
    pub async fn keep(&self, writes: usize) {
        while self.0.available_permits() >= writes {
            pause().await;
        }
        self.add(writes);
    }

    /// Waits until another write is allowed. Returns `false` after the end.
    pub async fn next(&self) -> bool {
        self.0.acquire().await.map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    /// Ends the writers, each after its current write.
    pub fn end(&self) {
        self.0.close();
    }
}
