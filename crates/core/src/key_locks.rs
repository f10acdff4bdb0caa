//! Per-key locks within one process.
//!
//! # Design
//!
//! ## Why does a process lock keys that the server protects anyway?
//!
//! A write that meets a transaction waits on the server and keeps its connection. A few such writes could take all
//! connections of the client's pool, and the transaction would wait for a connection to send its next command. So
//! transactions lock their keys exclusively, and single commands lock them shared.
//!
//! Repositories that were built separately over one client do not share these locks. When the single commands of
//! one take all connections while they wait for transactions of the other, both wait until the server aborts the
//! transactions, after a minute. So a process builds one repository and clones it.
//!
//! The locks save waiting. Correctness never depends on them: other processes do not see them.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tokio::sync::{OwnedRwLockWriteGuard, RwLock, RwLockReadGuard};

/// Keys share the locks, which costs a wait where two keys of one lock meet.
const LOCKS: usize = 64;

/// Striped locks: each key has one of them.
#[derive(Debug)]
pub struct KeyLocks([Arc<RwLock<()>>; LOCKS]);

/// Keys that are locked exclusively, until the last clone is dropped.
#[derive(Clone, Debug, Default)]
pub struct LockedKeys(Vec<Arc<OwnedRwLockWriteGuard<()>>>);

impl LockedKeys {
    /// Adds the keys of another value.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Arc::default()))
    }
}

impl KeyLocks {
    /// Locks a key for a single command, together with other single commands. A task must not lock a key twice.
    pub async fn shared(&self, key: &str) -> RwLockReadGuard<'_, ()> {
        let lock = &self.0[stripe(key)];
        match lock.try_read() {
            Ok(locked) => locked,
            Err(_) => lock.read().await,
        }
    }

    /// Locks a key for a transaction.
    pub async fn exclusive(&self, key: &str) -> LockedKeys {
        self.exclusive_all([key]).await
    }

    /// Locks a key as [`exclusive`](Self::exclusive) does, if it is free.
    pub fn try_exclusive(&self, key: &str) -> Option<LockedKeys> {
        let locked = Arc::clone(&self.0[stripe(key)]).try_write_owned().ok()?;
        Some(LockedKeys(vec![Arc::new(locked)]))
    }

    /// Locks a key as [`exclusive`](Self::exclusive) does, if it is free. Otherwise waits until it is free, and locks
    /// nothing.
    pub async fn exclusive_or_wait(&self, key: &str) -> Option<LockedKeys> {
        let locked = self.try_exclusive(key);
        if locked.is_none() {
            drop(self.0[stripe(key)].write().await);
        }
        locked
    }

    /// Locks several keys for a transaction. Every task takes the locks in the same order, so that none waits in a
    /// circle.
    pub async fn exclusive_all(&self, keys: impl IntoIterator<Item = impl AsRef<str>>) -> LockedKeys {
        let stripes = stripes(keys);
        let mut locked = Vec::with_capacity(stripes.len());
        for stripe in stripes {
            locked.push(Arc::new(Arc::clone(&self.0[stripe]).write_owned().await));
        }
        LockedKeys(locked)
    }
}

/// Returns the locks of keys, each once and in one order.
fn stripes(keys: impl IntoIterator<Item = impl AsRef<str>>) -> BTreeSet<usize> {
    keys.into_iter().map(|key| stripe(key.as_ref())).collect()
}

fn stripe(key: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() % LOCKS as u64) as usize
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use mongodb::bson::{Bson, oid::ObjectId};

    use super::*;
    use crate::document_id;

    fn keys_of_each_lock(keys: impl Iterator<Item = String>) -> [u32; LOCKS] {
        let mut keys_of = [0; LOCKS];
        for key in keys {
            keys_of[stripe(&key)] += 1;
        }
        keys_of
    }

    #[test]
    fn a_thousand_keys_use_nearly_all_locks_evenly() {
        let time = mongodb::bson::DateTime::from_millis(1_700_000_000_000);
        let object_id = |n: u32| {
            let mut bytes = [0; 12];
            bytes[..4].copy_from_slice(&u32::try_from(time.timestamp_millis() / 1000).unwrap().to_be_bytes());
            bytes[8..].copy_from_slice(&n.to_be_bytes());
            Bson::ObjectId(ObjectId::from_bytes(bytes))
        };
        let text = |id: Bson| document_id::text(&id);
        let kinds: [Vec<String>; 5] = [
            (0..1000).map(|n: i32| n.to_string()).collect(),
            (0..1000).map(|n: i32| text(n.into())).collect(),
            (0..1000).map(|n| text(format!("customer{n}").into())).collect(),
            (0..1000).map(|n| text(object_id(n))).collect(),
            (0..1000).map(|n: i64| text((n * 64).into())).collect(),
        ];
        for keys in kinds {
            let keys_of = keys_of_each_lock(keys.into_iter());
            let used = keys_of.iter().filter(|keys| **keys > 0).count();
            let most = keys_of.iter().max().unwrap();
            // An even distribution has 15.6 keys for each lock.
            assert!(
                used >= 60 && *most <= 40,
                "{used} locks used, {most} keys share one: {keys_of:?}"
            );
        }
    }

    #[test]
    fn a_lock_is_held_until_the_last_clone_goes() {
        let locks = KeyLocks::default();
        let locked = locks.exclusive("a").now_or_never().unwrap();
        let clone = locked.clone().and(LockedKeys::default());
        assert!(locks.shared("a").now_or_never().is_none());
        assert!(locks.exclusive_or_wait("a").now_or_never().is_none());
        drop(locked);
        assert!(locks.shared("a").now_or_never().is_none());
        assert!(locks.try_exclusive("a").is_none());
        drop(clone);
        assert!(locks.try_exclusive("a").is_some());
        assert!(locks.shared("a").now_or_never().is_some());
        assert!(locks.exclusive_or_wait("a").now_or_never().unwrap().is_some());
    }

    #[test]
    fn keys_of_one_lock_are_locked_once() {
        let locks = KeyLocks::default();
        let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let locked = locks.exclusive_all(&many).now_or_never().unwrap();
        assert_eq!(locked.0.len(), LOCKS);
        assert!(locks.shared("1").now_or_never().is_none());
    }
}
