//! The pipelines that compare the keys of a flat collection and of buckets, and count what cannot be migrated.
//!
//! # Design
//!
//! ## Why do groups by key have a `$mergeObjects`?
//!
//! Groups that do not fit into the server's memory go to disk. The slot-based engine of MongoDB 6.0 reads and writes each
//! document's group there (SERVER-70395). It does not have `$mergeObjects`, so these groups run in the classic engine: 76 s
//! for ten million groups in place of 741 s.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::key::KeyExpressions;
use mongodb::bson::{Bson, Document, doc};

use crate::settings::Settings;

/// The keys to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Flat,
    Buckets,
    Both,
}

/// Compares the keys, on the flat collection. Equal numbers of different types are one key, as in an index.
pub(crate) fn comparison(settings: &Settings, flat_key: &FieldName, buckets: &str, keys: Keys) -> [Document; 5] {
    let Settings { key, count, items, .. } = settings;
    let items = format!("${items}");
    let size = doc! { "$cond": [{ "$isArray": &items }, { "$size": &items }, 0] };
    let of_buckets = doc! { "$group": {
        "_id": of_many(format!("${key}")),
        "buckets": { "$sum": 1 },
        "counted": { "$sum": format!("${count}") },
        "sized": { "$sum": size },
    } };
    let exists = doc! { "$gt": 0 };
    let filter = match keys {
        Keys::Flat => doc! { "flat": exists },
        Keys::Buckets => doc! { "buckets": exists },
        Keys::Both => doc! { "flat": &exists, "buckets": &exists },
    };
    let equal = doc! { "$and": [{ "$eq": ["$flat", "$counted"] }, { "$eq": ["$counted", "$sized"] }] };
    [
        doc! { "$group": { "_id": of_many(format!("${flat_key}")), "flat": { "$sum": 1 } } },
        doc! { "$unionWith": { "coll": buckets, "pipeline": [of_buckets] } },
        doc! { "$group": {
            "_id": "$_id",
            "flat": { "$sum": "$flat" },
            "buckets": { "$sum": "$buckets" },
            "counted": { "$sum": "$counted" },
            "sized": { "$sum": "$sized" },
        } },
        doc! { "$match": filter },
        doc! { "$group": {
            "_id": null,
            "keys": { "$sum": 1 },
            "flat": { "$sum": "$flat" },
            "buckets": { "$sum": "$buckets" },
            "sized": { "$sum": "$sized" },
            "unequal": { "$sum": { "$cond": [equal, 0, 1] } },
        } },
    ]
}

/// Counts the documents whose key field has no key of the type.
pub(crate) fn other_keys(key: &FieldName, expressions: fn(&str) -> KeyExpressions) -> [Document; 2] {
    let is_key: Bson = expressions(&format!("${key}")).is_key;
    [
        doc! { "$match": { "$expr": { "$not": [is_key] } } },
        doc! { "$count": "n" },
    ]
}

/// Counts the documents that share a value.
pub(super) fn repeated(value: impl Into<Bson>) -> [Document; 3] {
    [
        doc! { "$group": { "_id": value.into(), "n": { "$sum": 1 } } },
        doc! { "$match": { "n": { "$gt": 1 } } },
        doc! { "$group": { "_id": null, "n": { "$sum": "$n" } } },
    ]
}

/// Returns the key of a group with possibly millions of members.
fn of_many(key: String) -> Document {
    doc! { "$mergeObjects": [{ "k": key }] }
}

/// Counts the documents that do not meet a condition.
pub(super) fn count_unless(condition: &Bson) -> Document {
    doc! { "$sum": { "$cond": [condition, 0, 1] } }
}

/// Returns the `_id` of one document that does not meet a condition. `$max` ignores null.
pub(super) fn one_unless(condition: &Bson) -> Document {
    doc! { "$max": { "$cond": [condition, null, "$_id"] } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongo_patterns_core::Key;

    fn field(name: &str) -> FieldName {
        FieldName::new(name).unwrap()
    }

    #[test]
    fn each_key_is_counted_on_both_sides() {
        let settings = Settings::example();
        let stages = |keys| comparison(&settings, &field("customer"), "trades", keys);
        let [flat, buckets, _, filter, _] = stages(Keys::Flat);
        let key = doc! { "$mergeObjects": [{ "k": "$customer" }] };
        assert_eq!(flat, doc! { "$group": { "_id": key, "flat": { "$sum": 1 } } });
        assert_eq!(filter, doc! { "$match": { "flat": { "$gt": 0 } } });
        let size = doc! { "$cond": [{ "$isArray": "$history" }, { "$size": "$history" }, 0] };
        let of_buckets = doc! { "$group": {
            "_id": { "$mergeObjects": [{ "k": "$customerId" }] },
            "buckets": { "$sum": 1 },
            "counted": { "$sum": "$count" },
            "sized": { "$sum": size },
        } };
        assert_eq!(
            buckets,
            doc! { "$unionWith": { "coll": "trades", "pipeline": [of_buckets] } }
        );
        let both = doc! { "$match": { "flat": { "$gt": 0 }, "buckets": { "$gt": 0 } } };
        assert_eq!(stages(Keys::Both)[3], both);
    }

    #[test]
    fn keys_of_other_types_are_no_keys_of_the_type() {
        let [filter, _] = other_keys(&field("k"), String::expressions);
        let is_key = String::expressions("$k").is_key;
        assert_eq!(filter, doc! { "$match": { "$expr": { "$not": [is_key] } } });
    }
}
