//! Writers beside another task, which allows them a bounded number of writes at a time.

use std::sync::Arc;

use mongo_patterns_testkit::TestDatabase;
use tokio::sync::Semaphore;

use crate::common::until;

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
        until("the writers", async || self.0.available_permits() < writes).await;
        self.add(writes);
    }

    /// Allows this number of writes before some work, of which one has begun then, and for each command that it sends.
    pub async fn beside<T>(&self, db: &TestDatabase, writes: usize, work: impl Future<Output = T>) -> T {
        let more = async {
            loop {
                db.recorder().sent(db.recorder().round_trips() + 1).await;
                self.add(writes);
            }
        };
        self.add(writes);
        until("a writer", async || self.0.available_permits() < writes).await;
        tokio::select! {
            done = work => done,
            () = more => unreachable!(),
        }
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
