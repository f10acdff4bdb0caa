//! What this process knows of the parents that it wrote.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mongodb::bson::{Bson, doc, serialize_to_vec};

/// How many parents at most. Beyond that all are forgotten, which costs each of them two finds.
const MOST: usize = 10_000;

/// The versions in which this process left parents. They are a guess: the database decides, when it compares them.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<Vec<u8>, Left>>);

/// How this process left a parent.
#[derive(Clone, Copy, Debug)]
struct Left {
    version: i64,
    /// Whether nobody else had written to it since the write before. Where others do, a guess is wrong most of the time,
    /// and costs more than it spares.
    alone: bool,
}

impl Known {
    /// The version of a parent that nobody else seems to write to.
    pub(crate) fn version(&self, parent: &Bson) -> Option<i64> {
        let left = self.lock().get(&key(parent)?).copied();
        left.filter(|left| left.alone).map(|left| left.version)
    }

    /// This process wrote a parent over a version.
    pub(crate) fn wrote(&self, parent: &Bson, over: i64) {
        let Some(key) = key(parent) else { return };
        let mut all = self.lock();
        let alone = all.get(&key).is_some_and(|left| left.version == over);
        if all.len() >= MOST && !all.contains_key(&key) {
            all.clear();
        }
        let version = over.wrapping_add(1);
        all.insert(key, Left { version, alone });
    }

    /// The guess was wrong, or the parent is gone.
    pub(crate) fn forget(&self, parent: &Bson) {
        if let Some(key) = key(parent) {
            self.lock().remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The id byte by byte: no two parents may share what is known.
fn key(parent: &Bson) -> Option<Vec<u8>> {
    serialize_to_vec(&doc! { "": parent }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_known_where_nobody_else_writes() {
        let (known, parent) = (Known::default(), Bson::Int32(1));
        known.wrote(&parent, 4);
        assert_eq!(known.version(&parent), None, "others may write to it");
        known.wrote(&parent, 5);
        assert_eq!(known.version(&parent), Some(6));
        assert_eq!(known.version(&Bson::String("1".into())), None);
        known.wrote(&parent, 7);
        assert_eq!(known.version(&parent), None, "another one wrote it");
        known.wrote(&parent, 8);
        assert_eq!(known.version(&parent), Some(9));
        known.forget(&parent);
        assert_eq!(known.version(&parent), None);
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let known = Known::default();
        for parent in 0..=MOST as i64 {
            known.wrote(&parent.into(), 0);
            known.wrote(&parent.into(), 1);
        }
        assert_eq!(known.version(&0_i64.into()), None);
        assert_eq!(known.version(&(MOST as i64).into()), Some(2));
    }
}
