//! Counts of documents that cannot be migrated.

use mongodb::bson::{Bson, Document, doc};

/// Counts the documents that share a value with another one.
pub(super) fn repeated(value: impl Into<Bson>) -> [Document; 3] {
    [
        doc! { "$group": { "_id": value.into(), "n": { "$sum": 1 } } },
        doc! { "$match": { "n": { "$gt": 1 } } },
        doc! { "$group": { "_id": null, "n": { "$sum": "$n" } } },
    ]
}

/// Counts the documents that do not meet a condition.
pub(super) fn count_unless(condition: &Bson) -> Document {
    doc! { "$sum": { "$cond": [condition, 0, 1] } }
}

/// Returns the `_id` of one document that does not meet a condition. `$max` ignores null.
pub(super) fn one_unless(condition: &Bson) -> Document {
    doc! { "$max": { "$cond": [condition, null, "$_id"] } }
}
