//! The ids of new buckets of a batch.

use std::collections::HashMap;

use mongo_patterns_core::Result;

use crate::form::id::{self, Tail};

/// Names the new buckets of a batch, each after those that are taken.
#[derive(Default)]
pub(crate) struct NewIds {
    /// The first free suffix of a second, where it is not 0.
    free: HashMap<String, u32>,
}

impl NewIds {
    /// Records that a tail is taken.
    pub(crate) fn taken(&mut self, tail: &str) {
        if let Some(Tail { second, suffix }) = Tail::parse(tail) {
            self.free_from(second, suffix + 1);
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
    pub(crate) fn next(&mut self, second: &str) -> Result<String> {
        let free = self.free.entry(second.to_owned()).or_default();
        let suffix = *free;
        *free += 1;
        id::with_suffix(second, suffix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_id_is_free_within_its_second() {
        let mut ids = NewIds::default();
        ids.taken("1698335223_000004");
        let seconds = ["1698335223", "1698335224", "1698335223", "1698335000"];
        assert_eq!(
            seconds.map(|second| ids.next(second).unwrap()),
            ["1698335223_000005", "1698335224", "1698335223_000006", "1698335000"]
        );
    }
}
