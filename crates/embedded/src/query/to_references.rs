//! The pipelines of the migration to references.

use mongo_patterns_core::migration::{self, Walk, count_if};

use crate::form::child_id::CHILD_ID_TYPES;
use crate::prelude::*;

/// The conversion of children into documents that refer to their parent.
pub(crate) struct ToReferences<'a> {
    pub(crate) settings: &'a Settings,
    /// The name of the collection.
    pub(crate) target: &'a str,
    /// The field of a child's document that gets the `_id` of its parent.
    pub(crate) reference: &'a FieldName,
}

impl ToReferences<'_> {
    /// Returns a document for each child: `_id`, reference, and the fields of the child in their order. The `_id` of a
    /// child without one is a function of its id and its parent, so that a retry writes the same document.
    fn documents(&self) -> Vec<Document> {
        let reference = self.reference.as_str();
        let own_id =
            doc! { reference: "$_id", self.settings.child_id.as_str(): format!("$c.{}", self.settings.child_id) };
        let first = doc! { "_id": own_id, reference: "$_id" };
        vec![
            doc! { "$project": { "c": format!("${}", self.settings.children) } },
            doc! { "$unwind": "$c" },
            // The reference is set again for a child that has this field too, perhaps as another numeric type.
            doc! { "$replaceWith": { "$mergeObjects": [first, "$c", { reference: "$_id" }] } },
        ]
    }

    /// Walks through the parents, weighted by the number of their children.
    pub(crate) fn walk(&self, most: u64) -> Walk {
        let array = format!("${}", self.settings.children);
        let children = doc! { "$cond": [{ "$isArray": &array }, { "$size": &array }, 0] };
        Walk::by_weight(Document::new(), children.into(), most)
    }

    /// Writes the children of these parents. A document that exists stays, so it can run again, even while the server
    /// still executes an earlier run.
    pub(crate) fn transfer(&self, parents: &[Bson]) -> Vec<Document> {
        let mut stages = vec![doc! { "$match": { "_id": { "$in": parents } } }];
        stages.extend(self.documents());
        stages.push(doc! { "$merge": {
            "into": self.target,
            "on": "_id",
            // Not `keepExisting`, which takes a dot in the name of a field for a path.
            "whenMatched": [],
            "whenNotMatched": "insert",
        } });
        stages
    }

    /// Counts the children that the target has.
    pub(crate) fn same(&self) -> Vec<Document> {
        // The reference and the id must be equal even if another field is a timestamp that the server set.
        let is_same = |field: &FieldName| doc! { "$eq": [format!("$t.{field}"), [format!("$d.{field}")]] };
        let is_inserted = migration::is_inserted(doc! { "$arrayElemAt": ["$t", 0] }, "$d");
        let is_there = doc! { "$and": [is_same(self.reference), is_same(&self.settings.child_id), is_inserted] };
        let mut stages = self.documents();
        stages.extend([
            doc! { "$project": { "_id": 0, "d": "$$ROOT" } },
            doc! { "$lookup": {
                "from": self.target, "localField": "d._id", "foreignField": "_id", "as": "t",
            } },
            // A `$match` would copy both, and the server limits the copy to 16 MiB.
            doc! { "$project": { "is_there": is_there } },
            doc! { "$match": { "is_there": true } },
            doc! { "$count": "n" },
        ]);
        stages
    }

    /// Counts the `_id`s that belong to several children.
    pub(crate) fn repeated_ids(&self) -> Vec<Document> {
        let mut stages = self.documents();
        stages.extend([
            doc! { "$group": { "_id": "$_id", "n": { "$sum": 1 } } },
            doc! { "$match": { "n": { "$gt": 1 } } },
            doc! { "$count": "bad" },
        ]);
        stages
    }

    /// Counts the parents, their children, and everything that cannot be migrated.
    pub(crate) fn inspection(&self) -> [Document; 1] {
        let Settings { children, child_id, .. } = self.settings;
        let array = format!("${children}");
        let is_array = doc! { "$isArray": &array };
        let in_child = format!("$$child.{}", self.reference);
        let has = |name: &str, types: &[&str]| doc! { "$in": [{ "$type": name }, types.to_vec()] };
        let any = |condition: Document| {
            let each = doc! { "$map": { "input": &array, "as": "child", "in": condition } };
            doc! { "$and": [&is_array, { "$anyElementTrue": [each] }] }
        };
        let sound =
            doc! { "$and": [has("$$child", &["object"]), has(&format!("$$child.{child_id}"), &CHILD_ID_TYPES)] };
        let no_array = doc! { "$not": [{ "$in": [{ "$type": &array }, ["array", "missing"]] }] };
        let bad = doc! { "$or": [no_array, any(doc! { "$not": [sound] })] };
        let other =
            any(doc! { "$and": [{ "$ne": [{ "$type": &in_child }, "missing"] }, { "$ne": [&in_child, "$_id"] }] });
        let mut group = doc! {
            "_id": null,
            "parents": { "$sum": 1 },
            "children": { "$sum": { "$cond": [&is_array, { "$size": &array }, 0] } },
        };
        count_if(&mut group, "bad", bad, 1, "$_id");
        count_if(&mut group, "other", other, 1, "$_id");
        [doc! { "$group": group }]
    }
}

/// Counts the documents of a collection.
pub(crate) fn count() -> [Document; 1] {
    [doc! { "$count": "n" }]
}

/// Counts the documents of a collection, up to one.
pub(crate) fn count_up_to_one() -> [Document; 2] {
    [doc! { "$limit": 1 }, doc! { "$count": "n" }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_becomes_a_document_with_a_deterministic_id_and_an_existing_one_stays() {
        let (settings, reference) = (Settings::example(), FieldName::new("patron_id").unwrap());
        let form = ToReferences {
            settings: &settings,
            target: "address",
            reference: &reference,
        };
        let own_id = doc! { "patron_id": "$_id", "id": "$c.id" };
        let document = doc! { "$mergeObjects": [
            { "_id": own_id, "patron_id": "$_id" },
            "$c",
            { "patron_id": "$_id" },
        ] };
        let expected = [
            doc! { "$match": { "_id": { "$in": ["joe"] } } },
            doc! { "$project": { "c": "$addresses" } },
            doc! { "$unwind": "$c" },
            doc! { "$replaceWith": document },
            doc! { "$merge": { "into": "address", "on": "_id", "whenMatched": [], "whenNotMatched": "insert" } },
        ];
        assert_eq!(form.transfer(&["joe".into()]), expected);
    }
}
