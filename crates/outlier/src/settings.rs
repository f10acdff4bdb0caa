//! What a builder was told, checked.

use mongo_patterns_core::index::{IndexPlan, PlannedIndex};
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::doc;

#[derive(Debug)]
pub(crate) struct Settings {
    /// The array of the main document.
    pub(crate) array: FieldName,
    /// Whether there are extras.
    pub(crate) flag: FieldName,
    /// The `_id` of the main document, in an extras document.
    pub(crate) parent: FieldName,
    /// The array of an extras document.
    pub(crate) extras: FieldName,
    /// Its place among those of its main document, from 0.
    pub(crate) seq: FieldName,
    /// The number of its elements.
    pub(crate) count: FieldName,
    pub(crate) threshold: u32,
    pub(crate) max_extras_elements: u32,
    /// Whether an element is in a list once.
    pub(crate) unique: bool,
    pub(crate) retry: RetryPolicy,
    /// The name of the unique index of the extras. Writes rely on it by name.
    pub(crate) seq_index: String,
}

pub(crate) fn seq_index(parent: &FieldName, seq: &FieldName) -> String {
    format!("{parent}_1_{seq}_1")
}

impl Settings {
    /// The threshold as it stands in expressions.
    pub(crate) fn threshold_bson(&self) -> i32 {
        i32::try_from(self.threshold).unwrap_or(i32::MAX)
    }

    /// The cap of extras documents as it stands in filters and expressions.
    pub(crate) fn extras_cap_bson(&self) -> i32 {
        i32::try_from(self.max_extras_elements).unwrap_or(i32::MAX)
    }

    /// The name of the index of the elements, where they are unique.
    pub(crate) fn element_index(&self) -> Option<String> {
        self.unique.then(|| format!("{}_1_{}_1", self.parent, self.extras))
    }

    pub(crate) fn index_plan(&self, collection: &str) -> IndexPlan {
        let (parent, seq, count) = (self.parent.as_str(), self.seq.as_str(), self.count.as_str());
        let mut indexes = vec![PlannedIndex::new(&self.seq_index, doc! { parent: 1, seq: 1 }).unique()];
        if let Some(name) = self.element_index() {
            // An empty array would have an entry too, so that there could be only one.
            let index = PlannedIndex::new(name, doc! { parent: 1, self.extras.as_str(): 1 }).unique();
            indexes.push(index.partial(doc! { count: { "$gt": 0 } }));
        }
        IndexPlan::new(collection, indexes)
    }
}

#[cfg(any(test, feature = "__fuzzing"))]
impl Settings {
    /// Those of the manual's example.
    pub(crate) fn example() -> Self {
        let field = |name: &str| FieldName::new(name).expect("a plain name");
        Self {
            array: field("customers_purchased"),
            flag: field("has_extras"),
            parent: field("book_id"),
            extras: field("customers_purchased_extra"),
            seq: field("seq"),
            count: field("count"),
            threshold: 50,
            max_extras_elements: 500,
            unique: false,
            retry: RetryPolicy::default(),
            seq_index: seq_index(&field("book_id"), &field("seq")),
        }
    }
}
