//! What a process remembers of documents, to save round trips.
//!
//! # Design
//!
//! ## Why is everything forgotten at once?
//!
//! A hint can be wrong at any time, because other processes write. So no call relies on one: a lost or wrong hint costs a
//! round trip or two. A bound that clears everything needs no order of use, and no second lock.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mongodb::bson::{Bson, doc, serialize_to_vec};

/// The maximum number of documents.
const MAX: usize = 10_000;

/// A bounded map from the `_id` of a document to what this process remembers of it.
#[derive(Debug)]
pub struct HintCache<V>(Mutex<HashMap<Vec<u8>, V>>);

impl<V> Default for HintCache<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V> HintCache<V> {
    /// Returns what the function takes from the hint of a document.
    pub fn get<T>(&self, id: &Bson, take: impl FnOnce(&V) -> Option<T>) -> Option<T> {
        take(self.lock().get(&key(id)?)?)
    }

    /// Sets the hint of a document.
    pub fn set(&self, id: &Bson, value: V) {
        let Some(key) = key(id) else { return };
        let mut hints = self.lock();
        if hints.len() >= MAX && !hints.contains_key(&key) {
            hints.clear();
        }
        hints.insert(key, value);
    }

    /// Removes the hint of a document. Returns whether there was one.
    pub fn forget(&self, id: &Bson) -> bool {
        key(id).is_some_and(|key| self.lock().remove(&key).is_some())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the bytes of the id: no two documents may share a hint.
fn key(id: &Bson) -> Option<Vec<u8>> {
    serialize_to_vec(&doc! { "": id }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_belongs_to_one_document_until_it_is_forgotten() {
        let hints = HintCache::default();
        let (number, text) = (Bson::Int32(1), Bson::String("1".into()));
        hints.set(&number, 5);
        hints.set(&number, 6);
        assert_eq!(hints.get(&number, |hint| Some(*hint)), Some(6));
        assert_eq!(hints.get(&text, |hint| Some(*hint)), None);
        assert!(hints.forget(&number) && !hints.forget(&number));
        assert_eq!(hints.get(&number, |hint| Some(*hint)), None);
    }

    #[test]
    fn the_number_of_hints_is_bounded() {
        let hints = HintCache::default();
        for id in 0..=MAX as i64 {
            hints.set(&id.into(), id);
        }
        assert_eq!(hints.get(&0_i64.into(), |hint| Some(*hint)), None);
        assert_eq!(hints.get(&(MAX as i64).into(), |hint| Some(*hint)), Some(MAX as i64));
    }
}
