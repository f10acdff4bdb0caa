//! Keeps the writes of this process away from a key while a transaction of ours is under way on it.
//!
//! A write that meets a transaction waits on the server, and holds its connection. Those of a few tasks could hold all
//! connections of the client, and the transaction would be left without one for its next command.

use std::hash::{DefaultHasher, Hash, Hasher};

use mongo_patterns_core::EncodedKey;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Keys share them, which costs a wait where two that share one meet.
const GATES: usize = 64;

#[derive(Debug)]
pub(crate) struct Gates([RwLock<()>; GATES]);

impl Default for Gates {
    fn default() -> Self {
        Self(std::array::from_fn(|_| RwLock::new(())))
    }
}

impl Gates {
    /// For a write of a single command, beside any others. A task must not pass twice.
    pub(crate) async fn pass(&self, key: &EncodedKey) -> RwLockReadGuard<'_, ()> {
        self.of(key).read().await
    }

    /// For a transaction, alone.
    pub(crate) async fn close(&self, key: &EncodedKey) -> RwLockWriteGuard<'_, ()> {
        self.of(key).write().await
    }

    fn of(&self, key: &EncodedKey) -> &RwLock<()> {
        let mut hasher = DefaultHasher::new();
        key.text().hash(&mut hasher);
        #[allow(clippy::cast_possible_truncation)] // any of the gates will do
        let gate = hasher.finish() as usize % GATES;
        &self.0[gate]
    }
}
