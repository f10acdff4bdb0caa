//! The versions in which this process left the parents that it wrote.
//!
//! # Design
//!
//! ## Why may an insert guess a version?
//!
//! With a known version, an insert needs no read of the parent. The database decides: if the parent still has that
//! version when it is written, it also had it when the children were read. Where other processes write, a guess is
//! wrong most of the time and costs more than it saves. So two writes without another writer in between must come
//! first.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mongodb::bson::{Bson, doc, serialize_to_vec};

use crate::form::rank::Rank;

/// The maximum number of parents. The cache is cleared when it is exceeded, which costs each parent two finds.
const MAX_PARENTS: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct VersionCache(Mutex<HashMap<Vec<u8>, Entry>>);

#[derive(Clone, Debug)]
struct Entry {
    version: i64,
    /// The rank of the last embedded child, if the subset was full and the rank can be compared.
    last: Option<Rank>,
    /// Whether no other process wrote the parent between the last two writes of this one.
    is_exclusive: bool,
}

impl VersionCache {
    /// Returns the version of a parent that no other process seems to write.
    pub(crate) fn version(&self, parent: &Bson) -> Option<i64> {
        let entries = self.lock();
        let entry = entries.get(&key(parent)?);
        entry.filter(|entry| entry.is_exclusive).map(|entry| entry.version)
    }

    /// Returns the rank of the last child of a full subset, as this process left it.
    pub(crate) fn last(&self, parent: &Bson) -> Option<Rank> {
        self.lock().get(&key(parent)?)?.last.clone()
    }

    /// Records that this process wrote a parent whose version was `previous`, with the rank of the last child of a full
    /// subset.
    pub(crate) fn record(&self, parent: &Bson, previous: i64, last: Option<Rank>) {
        let Some(key) = key(parent) else { return };
        let mut entries = self.lock();
        let is_exclusive = entries.get(&key).is_some_and(|entry| entry.version == previous);
        if entries.len() >= MAX_PARENTS && !entries.contains_key(&key) {
            entries.clear();
        }
        let version = previous.wrapping_add(1);
        entries.insert(
            key,
            Entry {
                version,
                last,
                is_exclusive,
            },
        );
    }

    /// Removes a parent whose version was wrong, or which was deleted.
    pub(crate) fn forget(&self, parent: &Bson) {
        if let Some(key) = key(parent) {
            self.lock().remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the bytes of the id: no two parents may share an entry.
pub(crate) fn key(parent: &Bson) -> Option<Vec<u8>> {
    serialize_to_vec(&doc! { "": parent }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_returned_only_without_other_writers() {
        let (versions, parent) = (VersionCache::default(), Bson::Int32(1));
        versions.record(&parent, 4, None);
        assert_eq!(versions.version(&parent), None, "other processes may write it");
        versions.record(&parent, 5, None);
        assert_eq!(versions.version(&parent), Some(6));
        assert_eq!(versions.version(&Bson::String("1".into())), None);
        versions.record(&parent, 7, None);
        assert_eq!(versions.version(&parent), None, "another process wrote it");
        versions.record(&parent, 8, None);
        assert_eq!(versions.version(&parent), Some(9));
        versions.forget(&parent);
        assert_eq!(versions.version(&parent), None);
    }

    #[test]
    fn the_size_is_bounded() {
        let versions = VersionCache::default();
        for parent in 0..=MAX_PARENTS as i64 {
            versions.record(&parent.into(), 0, None);
            versions.record(&parent.into(), 1, None);
        }
        assert_eq!(versions.version(&0_i64.into()), None);
        assert_eq!(versions.version(&(MAX_PARENTS as i64).into()), Some(2));
    }
}
