//! Keeps the writes of this process away from a key while a transaction of ours is under way on it.
//!
//! A write that meets a transaction waits on the server, and holds its connection. Those of a few tasks could hold all
//! connections of the client, and the transaction would be left without one for its next command.

use std::collections::BTreeSet;

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Keys share them, which costs a wait where two that share one meet.
const GATES: usize = 64;

/// One for each key, or for several.
#[derive(Debug)]
pub struct Gates([RwLock<()>; GATES]);

impl Default for Gates {
    fn default() -> Self {
        Self(std::array::from_fn(|_| RwLock::new(())))
    }
}

impl Gates {
    /// For a write of a single command, beside any others. A task must not pass twice.
    pub async fn pass(&self, key: &str) -> RwLockReadGuard<'_, ()> {
        let gate = self.of(key);
        match gate.try_read() {
            Ok(passed) => passed,
            Err(_) => gate.read().await,
        }
    }

    /// For a transaction, alone.
    pub async fn close(&self, key: &str) -> RwLockWriteGuard<'_, ()> {
        self.of(key).write().await
    }

    /// As [`close`](Self::close), if nobody has it. Otherwise it waits until it is free, and closes nothing.
    pub async fn close_or_wait(&self, key: &str) -> Option<RwLockWriteGuard<'_, ()>> {
        let gate = self.of(key);
        if let Ok(closed) = gate.try_write() {
            return Some(closed);
        }
        drop(gate.write().await);
        None
    }

    /// For a transaction on several keys, alone on each. They are closed in one order by all, so that nobody waits in a
    /// circle.
    pub async fn close_all(&self, keys: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<RwLockWriteGuard<'_, ()>> {
        let gates: BTreeSet<usize> = keys.into_iter().map(|key| place(key.as_ref())).collect();
        let mut closed = Vec::with_capacity(gates.len());
        for gate in gates {
            closed.push(self.0[gate].write().await);
        }
        closed
    }

    fn of(&self, key: &str) -> &RwLock<()> {
        &self.0[place(key)]
    }
}

/// Which gate a key has: by FNV-1a, as any of them will do.
fn place(key: &str) -> usize {
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as usize % GATES
}
