//! What this process knows of the seconds that opened several buckets.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Few keys open several buckets in a second, so few are remembered. What is forgotten costs a read, no more.
const CAPACITY: usize = 1024;

/// The next suffix to try for a second of a key, where the first `_id` was taken. A guess that saves round trips; the
/// unique `_id` decides.
#[derive(Debug, Default)]
pub(crate) struct Suffixes(Mutex<HashMap<String, u32>>);

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

    fn lock(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
