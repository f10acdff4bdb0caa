//! The pipelines of a migration from buckets to flat documents.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::key::KeyExpressions;
use mongodb::bson::{Bson, Document, doc};

use crate::query::compare::{count_unless, one_unless, repeated};
use crate::settings::Settings;

/// The form of buckets, and of the flat documents that their items become.
pub(crate) struct ToFlat<'a> {
    pub(crate) settings: &'a Settings,
    /// The key field of a flat document.
    pub(crate) key: FieldName,
    pub(crate) expressions: fn(&str) -> KeyExpressions,
}

impl ToFlat<'_> {
    /// Returns the stages from buckets to flat documents: `_id`, key, and the fields of the item in their order.
    pub(crate) fn items(&self) -> Vec<Document> {
        let key = self.key.as_str();
        let before = doc! { "_id": own_id(), key: "$k" };
        let mut stages = self.unwound();
        // The key comes again, for an item that has it too, possibly with another numeric type.
        stages.push(doc! { "$replaceWith": { "$mergeObjects": [before, "$i", { key: "$k" }] } });
        stages
    }

    /// Counts the items that would have the `_id` of another item as a flat document.
    pub(crate) fn repeated_ids(&self) -> Vec<Document> {
        let mut stages = self.ids();
        stages.extend(repeated("$_id"));
        stages
    }

    /// Counts the items that would have the `_id` of a document of the target, and those documents.
    pub(crate) fn taken_ids(&self, target: &str) -> Vec<Document> {
        let mut stages = self.ids();
        stages.push(doc! { "$unionWith": { "coll": target, "pipeline": [{ "$project": { "_id": 1 } }] } });
        stages.extend(repeated("$_id"));
        stages
    }

    fn ids(&self) -> Vec<Document> {
        let id = doc! { "$cond": [has_id("$i._id"), "$i._id", own_id()] };
        let mut stages = self.unwound();
        stages.push(doc! { "$project": { "_id": id } });
        stages
    }

    fn unwound(&self) -> Vec<Document> {
        let Settings { key, items, .. } = self.settings;
        vec![
            doc! { "$project": { "_id": 1, "k": format!("${key}"), "i": format!("${items}") } },
            doc! { "$unwind": { "path": "$i", "includeArrayIndex": "n" } },
        ]
    }

    /// Counts the items, and the buckets and items that cannot be migrated, with the `_id` of one such bucket.
    pub(crate) fn inspection(&self) -> [Document; 1] {
        let Settings { key, count, items, .. } = self.settings;
        let (key, count, items) = (format!("${key}"), format!("${count}"), format!("${items}"));
        let encoded = (self.expressions)(&key);
        let of_key = doc! { "$eq": [{ "$indexOfBytes": ["$_id", { "$concat": [encoded.text, "_"] }] }, 0] };
        let valid = doc! { "$switch": {
            "branches": [
                { "case": { "$ne": [{ "$type": "$_id" }, "string"] }, "then": false },
                { "case": { "$not": [{ "$isArray": &items }] }, "then": false },
                { "case": { "$ne": [count, { "$size": &items }] }, "then": false },
                { "case": { "$not": [encoded.is_key] }, "then": false },
            ],
            "default": of_key,
        } }
        .into();
        let array = doc! { "$cond": [{ "$isArray": &items }, &items, []] };
        let how_many = |condition: Document| {
            let such = doc! { "$filter": { "input": &array, "cond": condition } };
            doc! { "$size": such }
        };
        let no_document = how_many(doc! { "$ne": [{ "$type": "$$this" }, "object"] });
        let in_item = format!("$$this.{}", self.key);
        let other_key =
            how_many(doc! { "$and": [{ "$ne": [{ "$type": &in_item }, "missing"] }, { "$ne": [in_item, key] }] });
        let with_id = how_many(has_id("$$this._id"));
        let bad_id = how_many(doc! { "$in": [{ "$type": "$$this._id" }, ["array", "regex", "undefined"]] });
        let one_with = |number: &Document| one_unless(&doc! { "$eq": [number, 0] }.into());
        [doc! { "$group": {
            "_id": null,
            "total": { "$sum": { "$size": &array } },
            "buckets": count_unless(&valid),
            "bucket": one_unless(&valid),
            "scalars": { "$sum": &no_document },
            "scalar": one_with(&no_document),
            "keys": { "$sum": &other_key },
            "key": one_with(&other_key),
            "ids": { "$sum": &bad_id },
            "id": one_with(&bad_id),
            "with_ids": { "$sum": with_id },
        } }]
    }
}

fn has_id(path: &str) -> Document {
    doc! { "$ne": [{ "$type": path }, "missing"] }
}

/// Returns the `_id` of an item without one: the `_id` of its bucket, `_`, and its position in it, from 0.
fn own_id() -> Bson {
    doc! { "$concat": ["$_id", "_", { "$toString": "$n" }] }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongo_patterns_core::Key;

    #[test]
    fn an_item_becomes_a_document_with_its_key_and_a_stable_id() {
        let field = |name: &str| FieldName::new(name).unwrap();
        let settings = Settings::example();
        let form = ToFlat {
            settings: &settings,
            key: field("customer"),
            expressions: u32::expressions,
        };
        let id = doc! { "$concat": ["$_id", "_", { "$toString": "$n" }] };
        let expected = [
            doc! { "$project": { "_id": 1, "k": "$customerId", "i": "$history" } },
            doc! { "$unwind": { "path": "$i", "includeArrayIndex": "n" } },
            doc! { "$replaceWith": { "$mergeObjects": [{ "_id": id, "customer": "$k" }, "$i", { "customer": "$k" }] } },
        ];
        assert_eq!(form.items(), expected);
    }
}
