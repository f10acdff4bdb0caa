//! The ids of new buckets of a batch.

use std::collections::HashMap;

use mongo_patterns_core::Result;

use crate::form::id::{self, Tail};
use crate::settings::IdPolicy;

/// Names the new buckets of a batch, each after those that are taken.
#[derive(Default)]
pub(crate) struct NewIds {
    /// The first free suffix of a second, where it is not 0.
    free: HashMap<String, u32>,
    /// The newest tail of the key, where the policy depends on it.
    newest: Option<String>,
}

impl NewIds {
    /// Records that a tail is taken.
    pub(crate) fn taken(&mut self, tail: &str) {
        if let Some(Tail { second, suffix }) = Tail::parse(tail) {
            self.free_from(second, suffix + 1);
        }
        match &mut self.newest {
            Some(newest) if newest.as_str() >= tail => {}
            Some(newest) => tail.clone_into(newest),
            newest => *newest = Some(tail.to_owned()),
        }
    }

    /// Records that the suffixes before this one are taken.
    pub(crate) fn free_from(&mut self, second: &str, suffix: u32) {
        if suffix > 0 {
            let free = self.free.entry(second.to_owned()).or_default();
            *free = suffix.max(*free);
        }
    }

    /// Returns the tail of a new bucket whose first item is of this second.
    pub(crate) fn next(&mut self, policy: IdPolicy, second: &str) -> Result<String> {
        if policy == IdPolicy::ItemTime {
            let free = self.free.entry(second.to_owned()).or_default();
            let suffix = *free;
            *free += 1;
            return id::with_suffix(second, suffix);
        }
        let tail = match self.newest.as_deref().and_then(Tail::parse) {
            Some(newest) if self.newest.as_deref() >= Some(second) => newest.successor()?,
            _ => second.to_owned(),
        };
        self.taken(&tail);
        Ok(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_all(ids: &mut NewIds, policy: IdPolicy, seconds: &[&str]) -> Vec<String> {
        seconds.iter().map(|second| ids.next(policy, second).unwrap()).collect()
    }

    #[test]
    fn by_item_time_a_new_id_is_free_within_its_second() {
        let mut ids = NewIds::default();
        ids.taken("1698335223_000004");
        let seconds = ["1698335223", "1698335224", "1698335223", "1698335000"];
        assert_eq!(
            next_all(&mut ids, IdPolicy::ItemTime, &seconds),
            ["1698335223_000005", "1698335224", "1698335223_000006", "1698335000"]
        );
    }

    #[test]
    fn monotonic_ids_only_ascend() {
        let mut ids = NewIds::default();
        ids.taken("1698335223");
        let seconds = ["1698335000", "1698335223", "1698335224", "1698335224"];
        assert_eq!(
            next_all(&mut ids, IdPolicy::Monotonic, &seconds),
            [
                "1698335223_000001",
                "1698335223_000002",
                "1698335224",
                "1698335224_000001"
            ]
        );
    }
}
