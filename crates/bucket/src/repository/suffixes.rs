//! The next free suffixes of seconds in which several buckets were opened.
//!
//! # Design
//!
//! ## Can the cache be wrong?
//!
//! Yes. The database decides: a free `_id` is one that the `_id` index accepts.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Few keys open several buckets in a second. A forgotten entry costs a read.
const CAPACITY: usize = 1024;

/// The next suffix to try for a second of a key, where the `_id` without one was taken.
#[derive(Debug, Default)]
pub(crate) struct NextSuffixes(Mutex<HashMap<String, u32>>);

impl NextSuffixes {
    /// Returns the suffix to try for this `_id` without one.
    pub(crate) fn next(&self, base: &str) -> u32 {
        self.lock().get(base).copied().unwrap_or(0)
    }

    /// Records that all suffixes before this one are taken. Returns the next one to try.
    pub(crate) fn raise(&self, base: &str, next: u32) -> u32 {
        let mut suffixes = self.lock();
        if let Some(suffix) = suffixes.get_mut(base) {
            *suffix = next.max(*suffix);
            return *suffix;
        }
        if suffixes.len() >= CAPACITY {
            suffixes.clear();
        }
        suffixes.insert(base.to_owned(), next);
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
    fn suffixes_only_grow_and_their_number_is_bounded() {
        let suffixes = NextSuffixes::default();
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
