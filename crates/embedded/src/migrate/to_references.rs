//! From embedded children to references: the BSON.

use mongo_patterns_core::chunks::Walk;
use mongo_patterns_core::{FieldName, moves};
use mongodb::bson::{Bson, Document, doc};

use super::run::count_if;
use crate::ids::CHILD_ID_TYPES;
use crate::settings::Settings;

/// How children become documents that refer to their parent.
pub(crate) struct ToReferences<'a> {
    pub(crate) settings: &'a Settings,
    /// The name of the collection.
    pub(crate) target: &'a str,
    /// The field of a child's document that is to hold the `_id` of its parent.
    pub(crate) reference: &'a FieldName,
}

impl ToReferences<'_> {
    /// A document for each child: `_id`, reference, and the fields of the child in their order. A child without an `_id`
    /// gets one that is always the same.
    fn documents(&self) -> Vec<Document> {
        let reference = self.reference.as_str();
        let own_id =
            doc! { reference: "$_id", self.settings.child_id.as_str(): format!("$c.{}", self.settings.child_id) };
        let first = doc! { "_id": own_id, reference: "$_id" };
        vec![
            doc! { "$project": { "c": format!("${}", self.settings.children) } },
            doc! { "$unwind": "$c" },
            // The reference comes once more, for a child that has it too, perhaps as another numeric type.
            doc! { "$replaceWith": { "$mergeObjects": [first, "$c", { reference: "$_id" }] } },
        ]
    }

    /// Through the parents, by the number of their children.
    pub(crate) fn walk(&self, most: u64) -> Walk {
        let array = format!("${}", self.settings.children);
        let children = doc! { "$cond": [{ "$isArray": &array }, { "$size": &array }, 0] };
        Walk {
            filter: Document::new(),
            weight: children.into(),
            most,
        }
    }

    /// The children of some parents. What is there stays, so it may run again, also while an earlier run of it still goes
    /// on at the server.
    pub(crate) fn transfer(&self, parents: &[Bson]) -> Vec<Document> {
        let mut stages = vec![doc! { "$match": { "_id": { "$in": parents } } }];
        stages.extend(self.documents());
        stages.push(doc! { "$merge": {
            "into": self.target,
            "on": "_id",
            // An empty pipeline, and not `keepExisting`: that takes a dot in a field's name for a path.
            "whenMatched": [],
            "whenNotMatched": "insert",
        } });
        stages
    }

    /// Counts the children that are in the target.
    pub(crate) fn same(&self) -> Vec<Document> {
        // What refers to the parent, and identifies the child, must be the same in any case.
        let is_same = |field: &FieldName| doc! { "$eq": [format!("$t.{field}"), [format!("$d.{field}")]] };
        let is_inserted = moves::is_inserted(doc! { "$arrayElemAt": ["$t", 0] }, "$d");
        let is_there = doc! { "$and": [is_same(self.reference), is_same(&self.settings.child_id), is_inserted] };
        let mut stages = self.documents();
        stages.extend([
            doc! { "$project": { "_id": 0, "d": "$$ROOT" } },
            doc! { "$lookup": {
                "from": self.target, "localField": "d._id", "foreignField": "_id", "as": "t",
            } },
            doc! { "$match": { "$expr": is_there } },
            doc! { "$count": "n" },
        ]);
        stages
    }

    pub(crate) fn repeated_ids(&self) -> Vec<Document> {
        let mut stages = self.documents();
        stages.extend([
            doc! { "$group": { "_id": "$_id", "n": { "$sum": 1 } } },
            doc! { "$match": { "n": { "$gt": 1 } } },
            doc! { "$count": "bad" },
        ]);
        stages
    }

    /// Counts parents and children, and what cannot be moved.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_becomes_a_document_with_a_lasting_id_and_one_that_is_there_stays() {
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
