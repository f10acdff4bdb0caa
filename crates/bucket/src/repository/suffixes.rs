//! What this process knows of the seconds that opened several buckets.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mongo_patterns_core::key_locks::{KeyLocks, LockedKeys};

/// Few keys open several buckets in a second, so few are remembered. What is forgotten costs a read, no more.
const CAPACITY: usize = 1024;

/// The next suffix to try for a second of a key, where the first `_id` was taken. A guess that saves round trips; the
/// unique `_id` decides.
#[derive(Debug, Default)]
pub(crate) struct Suffixes {
    known: Mutex<HashMap<String, u32>>,
    colliding: KeyLocks,
}

impl Suffixes {
    /// The suffix to try for this `_id` without one.
    pub(crate) fn next(&self, base: &str) -> u32 {
        self.lock().get(base).copied().unwrap_or(0)
    }

    /// Notes that all suffixes before this one are taken, and returns the next to try.
    pub(crate) fn raise(&self, base: &str, next: u32) -> u32 {
        let mut known = self.lock();
        if let Some(suffix) = known.get_mut(base) {
            *suffix = next.max(*suffix);
            return *suffix;
        }
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(base.to_owned(), next);
        next
    }

    /// Lets the tasks of this process that met such a collision continue one after the other. Otherwise those of one key
    /// would send the same suffix at the same moment; a page of them fits, and the rest collide again.
    pub(crate) async fn take_turns(&self, base: &str) -> LockedKeys {
        self.colliding.exclusive(base).await
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_only_grows_and_is_bounded() {
        let suffixes = Suffixes::default();
        assert_eq!(suffixes.next("a_1"), 0);
        assert_eq!(suffixes.raise("a_1", 3), 3);
        assert_eq!(suffixes.raise("a_1", 2), 3);
        assert_eq!(suffixes.next("a_1"), 3);
        for number in 0..5000 {
            suffixes.raise(&format!("b_{number}"), 1);
        }
        assert!(suffixes.lock().len() <= CAPACITY);
    }
}
