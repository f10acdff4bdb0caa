//! The comparison of embedded children with the stored ones.

use mongo_patterns_core::migration::is_inserted;
use mongodb::bson::{Bson, Document, doc};

use super::EmbeddedChildren;
use crate::query::embedded_ids::embedded_ids;
use crate::query::whole;

impl EmbeddedChildren<'_> {
    /// Counts the parents with embedded children that are stored with other content.
    pub(crate) fn conflicts(&self) -> Vec<Document> {
        let child_id = &self.settings.child_id;
        let there = [
            doc! { "$match": { "$expr": self.is_of_parent() } },
            doc! { "$project": { "_id": 0, "i": format!("${child_id}"), "d": content("$$ROOT") } },
        ];
        let lookup = doc! { "from": self.children, "let": { "id": "$_id" }, "pipeline": there.to_vec(), "as": "there" };
        let copy = doc! { "i": format!("$$child.{child_id}"), "d": content(self.document("$$child")) };
        let array = format!("${}", self.settings.first().field);
        let copies = doc! { "$map": { "input": &array, "as": "child", "in": copy } };
        let ids = embedded_ids(self.settings, &array);
        // One by one, only for the sets that differ.
        let with_id = doc! { "$filter": {
            "input": "$others", "as": "other", "cond": { "$in": ["$$other.i", "$ids"] },
        } };
        let copies_of = doc! { "$filter": {
            "input": "$copies", "as": "copy", "cond": { "$eq": ["$$copy.i", "$$other.i"] },
        } };
        let copy_of = doc! { "$let": { "vars": { "copy": { "$arrayElemAt": [copies_of, 0] } }, "in": "$$copy.d" } };
        let is_copy = is_inserted("$$other.d", copy_of);
        let is_other = doc! { "$map": { "input": with_id, "as": "other", "in": { "$not": [is_copy] } } };
        let conflicts = doc! { "$and": [
            { "$ne": [{ "$setIntersection": ["$others.i", "$ids"] }, []] },
            { "$anyElementTrue": [is_other] },
        ] };
        let mut stages = vec![
            self.unmanaged(),
            doc! { "$project": { "ids": ids, "copies": copies } },
            doc! { "$lookup": lookup },
            doc! { "$project": { "ids": 1, "copies": 1, "others": { "$setDifference": ["$there", "$copies"] } } },
            doc! { "$project": { whole::SELECTED: conflicts } },
            whole::selected(),
        ];
        stages.extend(self.counted_conflicts());
        stages
    }

    /// Does what [`conflicts`](Self::conflicts) does, child by child, for a parent whose children exceed the server's
    /// memory.
    pub(crate) fn conflicts_one_by_one(&self) -> Vec<Document> {
        let child_id = format!("${}", self.settings.child_id);
        let is_child = doc! { "$and": [self.is_of_parent(), { "$eq": [child_id, "$$child"] }] };
        let there = [
            doc! { "$match": { "$expr": is_child } },
            doc! { "$replaceWith": content("$$ROOT") },
        ];
        let child = doc! { "id": "$_id", "child": format!("$c.{}", self.settings.child_id) };
        let lookup = doc! { "from": self.children, "let": child, "pipeline": there.to_vec(), "as": "there" };
        let is_copy = is_inserted(doc! { "$arrayElemAt": ["$there", 0] }, content(self.document("$c")));
        let conflicts = doc! { "$and": [{ "$ne": ["$there", []] }, { "$not": [is_copy] }] };
        let mut stages = self.embedded();
        stages.extend([
            doc! { "$lookup": lookup },
            doc! { "$project": { whole::SELECTED: conflicts } },
            whole::selected(),
            doc! { "$group": { "_id": "$_id" } },
        ]);
        stages.extend(self.counted_conflicts());
        stages
    }

    /// Counts the parents that are still unmanaged. A repository wrote the others concurrently.
    fn counted_conflicts(&self) -> [Document; 3] {
        [
            self.still_unmanaged("$_id", "still"),
            doc! { "$match": { "still.0": { "$exists": true } } },
            doc! { "$group": { "_id": null, "n": { "$sum": 1_i64 }, "nOne": { "$max": "$_id" } } },
        ]
    }

    /// Whether a stored child is one of the parent `$$id`, as an expression.
    fn is_of_parent(&self) -> Document {
        doc! { "$eq": [format!("${}", self.settings.parent), "$$id"] }
    }
}

/// A document without its `_id`, which the server may have generated, as an expression.
fn content(document: impl Into<Bson>) -> Document {
    doc! { "$mergeObjects": [{ "_id": null }, document.into(), { "_id": null }] }
}
