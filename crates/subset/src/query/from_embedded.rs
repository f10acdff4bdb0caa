//! From children that are embedded in their parents to documents of their own: the BSON.

use mongo_patterns_core::moves;
use mongodb::bson::{Bson, Document, Timestamp, doc};

use crate::query;
use crate::settings::Settings;

/// How embedded children become documents.
pub(crate) struct FromEmbedded<'a> {
    pub(crate) settings: &'a Settings,
    /// The names of the collections.
    pub(crate) parents: &'a str,
    pub(crate) children: &'a str,
}

impl FromEmbedded<'_> {
    /// Copies the children of some parents that the collection does not have yet, as long as the record is still that of
    /// this call.
    ///
    /// A child that is missing was perhaps deleted, by a writer for whom its parent was moved by then. So it is looked
    /// first which are missing, and then whether the parent still has no version: where it has none, nobody deleted any.
    /// And nobody can before all of them are there, unless another copy were under way: that is what the record is for.
    pub(crate) fn copy(&self, parents: &Bson, record: Document) -> Vec<Document> {
        let child_id = &self.settings.child_id;
        let is_ours = [doc! { "$match": record }, doc! { "$project": { "_id": 1 } }];
        let of_call = doc! { "from": moves::COLLECTION, "pipeline": is_ours.to_vec(), "as": "record" };
        let ids = query::embedded_ids(self.settings, "$parent.c");
        let is_missing = doc! { "$not": [{ "$in": [format!("$parent.c.{child_id}"), "$there"] }] };
        vec![
            doc! { "$match": { "_id": { "$in": parents } } },
            doc! { "$project": { "_id": 1 } },
            doc! { "$lookup": of_call },
            doc! { "$match": { "record.0": { "$exists": true } } },
            query::ids_of_children(self.settings, self.children, doc! { "id": "$_id" }, "there"),
            self.still_unwritten("$_id", "parent"),
            doc! { "$unwind": "$parent" },
            doc! { "$project": { "parent": 1, "there": "$there.i" } },
            doc! { "$match": { "$expr": { "$not": [{ "$setIsSubset": [ids, "$there"] }] } } },
            doc! { "$unwind": "$parent.c" },
            doc! { "$match": { "$expr": is_missing } },
            doc! { "$replaceWith": self.document("$parent.c") },
            doc! { "$merge": {
                "into": self.children,
                "on": [self.settings.parent.as_str(), child_id.as_str()],
                // A plain insert: what is there was left out. It takes a third of the time of an upsert, and no name or
                // value in a child for something else.
                "whenMatched": "fail",
                "whenNotMatched": "insert",
            } },
        ]
    }

    /// Looks up a parent, if no repository has written it by then: what is embedded, in a field `c`.
    fn still_unwritten(&self, id: &str, into: &str) -> Document {
        let still = [
            doc! { "$match": { "$expr": { "$eq": ["$_id", "$$id"] } } },
            doc! { "$match": { "$expr": query::is_unwritten(self.settings) } },
            doc! { "$project": { "_id": 0, "c": format!("${}", self.settings.subset) } },
        ];
        doc! { "$lookup": { "from": self.parents, "let": { "id": id }, "pipeline": still.to_vec(), "as": into } }
    }

    /// The document of an embedded child: the parent, and then its fields in their order.
    fn document(&self, child: &str) -> Document {
        let parent = doc! { self.settings.parent.as_str(): "$_id" };
        // It comes once more, for a child that has it too, perhaps as another numeric type.
        doc! { "$mergeObjects": [&parent, child, &parent] }
    }

    /// Counts parents and children, and what cannot be moved.
    pub(crate) fn inspection(&self) -> [Document; 2] {
        let Settings {
            subset,
            parent,
            child_id,
            order,
            ..
        } = self.settings;
        let array = format!("${subset}");
        let is_array = doc! { "$isArray": &array };
        let any = |condition: Document| {
            let each = doc! { "$map": { "input": &array, "as": "child", "in": condition } };
            doc! { "$and": [&is_array, { "$anyElementTrue": [each] }] }
        };
        let type_in = |path: &str, types: &[&str]| doc! { "$in": [{ "$type": path }, types.to_vec()] };
        let in_child = |field: &str| format!("$$child.{field}");
        let no_id = ["missing", "null", "undefined", "array", "regex"];
        let ids = query::embedded_ids(self.settings, &array);
        let has_twice = doc! { "$and": [
            &is_array,
            { "$ne": [{ "$size": { "$setUnion": [&ids, []] } }, { "$size": ids }] },
        ] };
        let other_parent = doc! { "$and": [
            { "$ne": [{ "$type": in_child(parent.as_str()) }, "missing"] },
            { "$ne": [in_child(parent.as_str()), "$_id"] },
        ] };
        let arrays = order
            .iter()
            .map(|(field, _)| Bson::from(type_in(&in_child(field.as_str()), &["array"])));
        let has_array = doc! { "$or": arrays.collect::<Vec<_>>() };
        let mut group = doc! {
            "_id": null,
            "parents": { "$sum": 1_i64 },
            "children": { "$sum": { "$cond": [&is_array, { "$size": &array }, 0] } },
        };
        count_if(&mut group, "no_array", &doc! { "$not": [&is_array] });
        // The server would put the time of the insert in its place.
        let no_time = Timestamp { time: 0, increment: 0 };
        let is_replaced = |path: &str| doc! { "$eq": [path, no_time] };
        let no_parent_id = doc! { "$or": [type_in("$_id", &no_id), is_replaced("$_id")] };
        count_if(&mut group, "no_parent_id", &no_parent_id);
        count_if(
            &mut group,
            "no_document",
            &any(doc! { "$not": [type_in("$$child", &["object"])] }),
        );
        let id = in_child(child_id.as_str());
        let mut no_child_id = type_in(&id, &no_id);
        if child_id.as_str() != "_id" {
            no_child_id = doc! { "$or": [no_child_id, is_replaced(&id)] };
        }
        count_if(&mut group, "no_id", &any(no_child_id));
        count_if(&mut group, "twice", &has_twice);
        count_if(&mut group, "other_parent", &any(other_parent));
        count_if(&mut group, "array_in_order", &any(has_array));
        count_if(
            &mut group,
            "with_ids",
            &any(doc! { "$ne": [{ "$type": "$$child._id" }, "missing"] }),
        );
        [self.unwritten(), doc! { "$group": group }]
    }

    /// Counts the `_id`s that several embedded children have, or that no document can have.
    pub(crate) fn unusable_ids(&self) -> Vec<Document> {
        let no_id = doc! { "$in": [{ "$type": "$_id" }, ["array", "regex", "undefined"]] };
        let mut stages = self.embedded();
        stages.extend([
            doc! { "$match": { "c._id": { "$exists": true } } },
            doc! { "$group": { "_id": "$c._id", "n": { "$sum": 1_i64 }, "one": { "$max": "$_id" } } },
            doc! { "$match": { "$expr": { "$or": [{ "$gt": ["$n", 1] }, no_id] } } },
            doc! { "$group": { "_id": null, "n": { "$sum": 1_i64 }, "nOne": { "$max": "$one" } } },
        ]);
        stages
    }

    /// Counts the parents with embedded children of which the collection has one with the same id, and another content.
    pub(crate) fn conflicts(&self) -> Vec<Document> {
        let Settings {
            subset,
            parent,
            child_id,
            ..
        } = self.settings;
        // Without the `_id`, which a copy may have got from the server.
        let content = |document: Bson| doc! { "$mergeObjects": [{ "_id": null }, document, { "_id": null }] };
        let there = [
            doc! { "$match": { "$expr": { "$eq": [format!("${parent}"), "$$id"] } } },
            doc! { "$project": { "_id": 0, "i": format!("${child_id}"), "d": content("$$ROOT".into()) } },
        ];
        let lookup = doc! { "from": self.children, "let": { "id": "$_id" }, "pipeline": there.to_vec(), "as": "there" };
        let copy = doc! { "i": format!("$$child.{child_id}"), "d": content(self.document("$$child").into()) };
        let array = format!("${subset}");
        let copies = doc! { "$map": { "input": &array, "as": "child", "in": copy } };
        let ids = query::embedded_ids(self.settings, &array);
        // One by one, where the sets tell that some differ.
        let with_id = doc! { "$filter": {
            "input": "$others", "as": "other", "cond": { "$in": ["$$other.i", "$ids"] },
        } };
        let copies_of = doc! { "$filter": {
            "input": "$copies", "as": "copy", "cond": { "$eq": ["$$copy.i", "$$other.i"] },
        } };
        let copy_of = doc! { "$let": { "vars": { "copy": { "$arrayElemAt": [copies_of, 0] } }, "in": "$$copy.d" } };
        let is_copy = moves::is_inserted("$$other.d", copy_of);
        let is_other = doc! { "$map": { "input": with_id, "as": "other", "in": { "$not": [is_copy] } } };
        vec![
            self.unwritten(),
            doc! { "$project": { "ids": ids, "copies": copies } },
            doc! { "$lookup": lookup },
            doc! { "$project": { "ids": 1, "copies": 1, "others": { "$setDifference": ["$there", "$copies"] } } },
            doc! { "$match": { "$expr": { "$ne": [{ "$setIntersection": ["$others.i", "$ids"] }, []] } } },
            doc! { "$match": { "$expr": { "$anyElementTrue": [is_other] } } },
            // Or else it was written meanwhile.
            self.still_unwritten("$_id", "still"),
            doc! { "$match": { "still.0": { "$exists": true } } },
            doc! { "$group": { "_id": null, "n": { "$sum": 1_i64 }, "nOne": { "$max": "$_id" } } },
        ]
    }

    fn unwritten(&self) -> Document {
        doc! { "$match": query::unwritten(self.settings, None) }
    }

    /// One document for each embedded child, in a field `c`.
    fn embedded(&self) -> Vec<Document> {
        vec![
            self.unwritten(),
            doc! { "$project": { "c": format!("${}", self.settings.subset) } },
            doc! { "$unwind": "$c" },
        ]
    }
}

/// How many parents meet a condition, and one of them.
fn count_if(group: &mut Document, name: &str, condition: &Document) {
    group.insert(name, doc! { "$sum": { "$cond": [condition, 1_i64, 0_i64] } });
    group.insert(
        format!("{name}One"),
        doc! { "$max": { "$cond": [condition, "$_id", null] } },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_is_missing_becomes_a_document() {
        let settings = Settings::example();
        let form = FromEmbedded {
            settings: &settings,
            parents: "product",
            children: "review",
        };
        let record = doc! { "_id": "review", "run": 7 };
        let stages = form.copy(&vec![Bson::from("$name")].into(), record.clone());
        assert_eq!(stages[0], doc! { "$match": { "_id": { "$in": ["$name"] } } });
        let fence = stages[2].get_document("$lookup").unwrap();
        assert_eq!(
            fence.get_array("pipeline").unwrap()[0],
            doc! { "$match": record }.into()
        );
        // what is missing is looked up before the parent
        let into = |stage: &Document| stage.get_document("$lookup").unwrap().get_str("as").unwrap().to_owned();
        assert_eq!(
            (into(&stages[4]), into(&stages[5])),
            ("there".to_owned(), "parent".to_owned())
        );
        let parent = doc! { "product_id": "$_id" };
        let tail = [
            doc! { "$replaceWith": { "$mergeObjects": [&parent, "$parent.c", &parent] } },
            doc! { "$merge": {
                "into": "review",
                "on": ["product_id", "review_id"],
                "whenMatched": "fail",
                "whenNotMatched": "insert",
            } },
        ];
        assert_eq!(stages[11..], tail);
    }
}
