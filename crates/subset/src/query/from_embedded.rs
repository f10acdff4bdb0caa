//! The commands of the migration from embedded children.
//!
//! # Design
//!
//! ## Why does a copy look for missing children before it reads the parent?
//!
//! A writer may have deleted a missing child after its parent was migrated. If the parent is read last and has no version,
//! no repository has deleted any child before the lookup. In the other order, a child that is deleted in between would be
//! inserted again.
//!
//! ## Why does only one copy run at a time?
//!
//! No repository can delete children of a parent before all are copied, unless another copy is running. So a copy reads the
//! record of the migration on the server, and a new call waits for the end of an earlier copy.
//!
//! ## Why are parents marked before their children are copied?
//!
//! A program that still embeds children could change or remove one that is copied already. The mark refuses it.
//!
//! ## Why are parents without children marked?
//!
//! So that no program embeds their first child after the migration has passed them. The mark is their version.
//!
//! ## Why does a copy compare ids in blocks?
//!
//! `$in` reads a list from its start for each child, so the time grows with the square of the list. `$setDifference` hashes
//! it. Within a block, `$in` reads few ids.

mod conflicts;

use mongo_patterns_core::catalog;
use mongo_patterns_core::migration::{ChunkedFind, MigrateOptions, and};
use mongodb::bson::{Bson, Document, Timestamp, doc};

use crate::query::embedded_ids::{embedded_ids, is_unmanaged, is_unmigrated};
use crate::query::whole;
use crate::settings::Settings;

/// How many children are compared with the stored ones at once.
const BLOCK: i32 = 1000;

pub(crate) struct EmbeddedChildren<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) parents: &'a str,
    pub(crate) children: &'a str,
    /// The filter of the parents to migrate, and whether invalid ones are skipped.
    pub(crate) options: &'a MigrateOptions,
}

impl EmbeddedChildren<'_> {
    /// Marks parents, so that the repository of embedded children refuses them: by a null version, or by a number for
    /// parents without children.
    pub(crate) fn mark(&self, parents: &[Bson]) -> (Document, Vec<Document>) {
        let due = [self.unmigrated(), self.without_version()];
        let filter = doc! { "_id": { "$in": parents }, "$or": due.to_vec() };
        let version = doc! { "$cond": [is_unmanaged(self.settings), null, 1_i64] };
        (
            filter,
            vec![doc! { "$set": { self.settings.version.as_str(): version } }],
        )
    }

    /// Inserts the missing children of some parents, as long as the record still belongs to this call.
    pub(crate) fn copy(&self, parents: &Bson, record: Document) -> Vec<Document> {
        let child_id = &self.settings.child_id;
        let is_ours = [doc! { "$match": record }, doc! { "$project": { "_id": 1 } }];
        let of_call = doc! { "from": catalog::COLLECTION, "pipeline": is_ours.to_vec(), "as": "record" };
        vec![
            doc! { "$match": { "_id": { "$in": parents } } },
            doc! { "$project": { "_id": 1 } },
            doc! { "$lookup": of_call },
            doc! { "$match": { "record.0": { "$exists": true } } },
            whole::ids_of_children(self.settings, self.children, doc! { "id": "$_id" }, "there"),
            self.still_unmanaged("$_id", "parent"),
            doc! { "$unwind": "$parent" },
            doc! { "$project": { "c": self.missing("$parent.c", whole::looked_up_ids("there")) } },
            doc! { "$unwind": "$c" },
            doc! { "$unwind": "$c" },
            doc! { "$replaceWith": self.document("$c") },
            doc! { "$merge": {
                "into": self.children,
                "on": [self.settings.parent.as_str(), child_id.as_str()],
                // A plain insert: stored children were filtered out. It takes a third of the time of an upsert, and
                // interprets no name or value of a child.
                "whenMatched": "fail",
                "whenNotMatched": "insert",
            } },
        ]
    }

    /// Returns the children whose ids are not among others, in blocks, as an expression.
    fn missing(&self, children: &str, others: Document) -> Document {
        let ids = embedded_ids(self.settings, "$$block");
        let of_block = doc! { "$filter": {
            "input": "$$block",
            "as": "child",
            "cond": { "$in": [format!("$$child.{}", self.settings.child_id), "$$missing"] },
        } };
        let of_block = doc! { "$let": {
            "vars": { "missing": { "$setDifference": [ids, "$$others"] } },
            "in": of_block,
        } };
        let blocks = doc! { "$map": {
            "input": { "$range": [0, { "$size": "$$all" }, BLOCK] },
            "as": "from",
            "in": { "$let": { "vars": { "block": { "$slice": ["$$all", "$$from", BLOCK] } }, "in": of_block } },
        } };
        doc! { "$let": {
            "vars": { "all": children, "others": others },
            "in": { "$cond": [{ "$eq": ["$$others", []] }, ["$$all"], blocks] },
        } }
    }

    /// Looks up what a parent embeds, in the field `c`, if it is still unmanaged.
    fn still_unmanaged(&self, id: &str, into: &str) -> Document {
        let still = [
            doc! { "$match": { "$expr": { "$eq": ["$_id", "$$id"] } } },
            doc! { "$match": { "$expr": is_unmigrated(self.settings) } },
            doc! { "$project": { "_id": 0, "c": format!("${}", self.settings.first().field) } },
        ];
        doc! { "$lookup": { "from": self.parents, "let": { "id": id }, "pipeline": still.to_vec(), "as": into } }
    }

    /// The document of an embedded child: the parent, followed by the fields in their order.
    fn document(&self, child: &str) -> Document {
        let parent = doc! { self.settings.parent.as_str(): "$_id" };
        // Merged twice: the child may have the field too, with another numeric type.
        doc! { "$mergeObjects": [&parent, child, &parent] }
    }

    /// Counts parents and children, and the parents that cannot be migrated.
    pub(crate) fn inspection(&self) -> [Document; 2] {
        let mut group = self.sums();
        // Counts the parents that meet each condition, and names one of them.
        let with_ids = ("with_ids", self.with_ids());
        for (name, condition) in self.conditions().into_iter().chain([with_ids]) {
            group.insert(name, doc! { "$sum": { "$cond": [&condition, 1_i64, 0_i64] } });
            group.insert(
                format!("{name}One"),
                doc! { "$max": { "$cond": [condition, "$_id", null] } },
            );
        }
        [self.unmanaged(), doc! { "$group": group }]
    }

    /// Counts valid parents and their children, and the invalid parents by their reason.
    pub(crate) fn inspection_of_invalid(&self, sample: Option<u32>) -> Vec<Document> {
        let is = |reason: &str| doc! { "$eq": ["$r", reason] };
        let mut group = doc! {
            "_id": null,
            "checked": { "$sum": 1_i64 },
            "parents": { "$sum": { "$cond": [is(""), 1_i64, 0_i64] } },
            "children": { "$sum": { "$cond": [is(""), "$children", 0_i64] } },
            "with_ids": { "$sum": { "$cond": [{ "$and": [is(""), "$with_ids"] }, 1_i64, 0_i64] } },
        };
        for (name, _) in self.conditions() {
            group.insert(name, doc! { "$sum": { "$cond": [is(name), 1_i64, 0_i64] } });
        }
        let array = format!("${}", self.settings.first().field);
        let sample = sample.map(|size| doc! { "$sample": { "size": i64::from(size) } });
        let mut stages = vec![doc! { "$match": self.given() }];
        stages.extend(sample);
        stages.extend([
            doc! { "$project": {
                "_id": 0,
                "r": self.reason(),
                "children": { "$cond": [{ "$isArray": &array }, { "$size": &array }, 0] },
                "with_ids": self.with_ids(),
            } },
            doc! { "$group": group },
        ]);
        stages
    }

    /// Returns an expression of the reason why a parent is invalid, which is empty for a valid one.
    pub(crate) fn reason(&self) -> Bson {
        let conditions = self.conditions().into_iter();
        let branches: Vec<Document> = conditions
            .map(|(name, condition)| doc! { "case": condition, "then": { "$literal": name } })
            .collect();
        doc! { "$switch": { "branches": branches, "default": { "$literal": "" } } }.into()
    }

    /// Returns the filter of the invalid parents among those to migrate.
    pub(crate) fn invalid(&self) -> Document {
        and(self.given(), doc! { "$expr": { "$or": self.any_problem() } })
    }

    /// Returns the problems of parents, in the order in which they are checked, with their conditions.
    fn conditions(&self) -> [(&'static str, Document); 7] {
        let settings = self.settings;
        let (parent, child_id) = (&settings.parent, &settings.child_id);
        let array = format!("${}", settings.first().field);
        let is_array = doc! { "$isArray": &array };
        let any = |condition: Document| self.any_child_is(condition);
        let type_in = |path: &str, types: &[&str]| doc! { "$in": [{ "$type": path }, types.to_vec()] };
        let in_child = |field: &str| format!("$$child.{field}");
        let no_id = ["missing", "null", "undefined", "array", "regex"];
        let ids = embedded_ids(self.settings, &array);
        let has_twice = doc! { "$and": [
            &is_array,
            { "$ne": [{ "$size": { "$setUnion": [&ids, []] } }, { "$size": ids }] },
        ] };
        let other_parent = doc! { "$and": [
            { "$ne": [{ "$type": in_child(parent.as_str()) }, "missing"] },
            { "$ne": [in_child(parent.as_str()), "$_id"] },
        ] };
        let arrays = settings
            .scalar_fields()
            .map(|field| Bson::from(type_in(&in_child(field.as_str()), &["array"])));
        let has_array = doc! { "$or": arrays.collect::<Vec<_>>() };
        // The server replaces this value by the time of the insert.
        let now = Timestamp { time: 0, increment: 0 };
        let is_replaced = |path: &str| doc! { "$eq": [path, now] };
        let id = in_child(child_id.as_str());
        let no_child_id = match child_id.as_str() {
            "_id" => type_in(&id, &no_id),
            _ => doc! { "$or": [type_in(&id, &no_id), is_replaced(&id)] },
        };
        [
            ("no_array", doc! { "$not": [&is_array] }),
            (
                "no_parent_id",
                doc! { "$or": [type_in("$_id", &no_id), is_replaced("$_id")] },
            ),
            ("no_document", any(doc! { "$not": [type_in("$$child", &["object"])] })),
            ("no_id", any(no_child_id)),
            ("twice", has_twice),
            ("other_parent", any(other_parent)),
            ("array_in_order", any(has_array)),
        ]
    }

    fn any_problem(&self) -> Vec<Document> {
        let conditions = self.conditions().into_iter();
        conditions.map(|(_, condition)| condition).collect()
    }

    fn any_child_is(&self, condition: Document) -> Document {
        let array = format!("${}", self.settings.first().field);
        let each = doc! { "$map": { "input": &array, "as": "child", "in": condition } };
        doc! { "$and": [{ "$isArray": &array }, { "$anyElementTrue": [each] }] }
    }

    /// Whether a parent embeds children with an `_id`, as an expression.
    fn with_ids(&self) -> Document {
        self.any_child_is(doc! { "$ne": [{ "$type": "$$child._id" }, "missing"] })
    }

    fn sums(&self) -> Document {
        let array = format!("${}", self.settings.first().field);
        doc! {
            "_id": null,
            "parents": { "$sum": 1_i64 },
            "children": { "$sum": { "$cond": [{ "$isArray": &array }, { "$size": &array }, 0] } },
        }
    }

    /// Counts the `_id`s that several embedded children share, or that no document can have.
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

    /// The walk through the parents to migrate, and those without children, weighted by their numbers of children.
    pub(crate) fn walk(&self, chunk_children: u64) -> ChunkedFind {
        let children = doc! { "$size": embedded_ids(self.settings, &format!("${}", self.settings.first().field)) };
        let without_children = doc! { "$and": [self.without_version(), { "$nor": [self.unmigrated()] }] };
        let without_children = and(without_children, self.options.filter.clone());
        let parents = doc! { "$or": [self.selected(), without_children] };
        ChunkedFind::by_weight(parents, children.into(), chunk_children)
    }

    /// The settings that all calls of one migration share.
    pub(crate) fn record_settings(&self) -> Document {
        let mut settings = doc! {
            "pattern": "subset",
            "into": "children",
            "source": self.parents,
            "subset": self.settings.first().field.as_str(),
            "version": self.settings.version.as_str(),
            "parent": self.settings.parent.as_str(),
            "childId": self.settings.child_id.as_str(),
        };
        self.options.record_selection(&mut settings);
        settings
    }

    /// Returns the filter of the parents to migrate.
    pub(crate) fn selected(&self) -> Document {
        match self.options.skipped {
            Some(_) => and(
                self.given(),
                doc! { "$expr": { "$not": [{ "$or": self.any_problem() }] } },
            ),
            None => self.given(),
        }
    }

    /// Returns a filter of the parents whose subsets this migration rebuilds at its end. It is empty for all.
    pub(crate) fn rebuilt(&self) -> Document {
        if self.options.filter.is_empty() && self.options.skipped.is_none() {
            return Document::new();
        }
        let is_not_skipped = doc! { "$or": [{ "$nor": [self.unmigrated()] }, self.selected()] };
        and(self.options.filter.clone(), is_not_skipped)
    }

    fn unmigrated(&self) -> Document {
        doc! { "$expr": is_unmigrated(self.settings) }
    }

    fn without_version(&self) -> Document {
        doc! { self.settings.version.as_str(): { "$exists": false } }
    }

    /// Returns the same filter, with the invalid parents.
    fn given(&self) -> Document {
        and(self.unmigrated(), self.options.filter.clone())
    }

    fn unmanaged(&self) -> Document {
        doc! { "$match": self.selected() }
    }

    /// Returns one document for each embedded child, in the field `c`.
    fn embedded(&self) -> Vec<Document> {
        vec![
            self.unmanaged(),
            doc! { "$project": { "c": format!("${}", self.settings.first().field) } },
            doc! { "$unwind": "$c" },
        ]
    }
}

/// Counts the stored children, up to one.
pub(crate) fn any_child() -> [Document; 2] {
    [doc! { "$limit": 1 }, doc! { "$count": "n" }]
}

/// Finds a running copy among the operations of the server, by its comment.
pub(crate) fn running_copy(comment: &str) -> [Document; 3] {
    [
        doc! { "$currentOp": {} },
        doc! { "$match": { "command.comment": comment } },
        doc! { "$limit": 1 },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_child_becomes_a_document() {
        let settings = Settings::example();
        let form = EmbeddedChildren {
            settings: &settings,
            parents: "product",
            children: "review",
            options: &MigrateOptions::default(),
        };
        let record = doc! { "_id": "review", "run": 7 };
        let stages = form.copy(&vec![Bson::from("$name")].into(), record.clone());
        assert_eq!(stages[0], doc! { "$match": { "_id": { "$in": ["$name"] } } });
        let fence = stages[2].get_document("$lookup").unwrap();
        assert_eq!(
            fence.get_array("pipeline").unwrap()[0],
            doc! { "$match": record }.into()
        );
        // The stored children are read before the parent.
        let into = |stage: &Document| stage.get_document("$lookup").unwrap().get_str("as").unwrap().to_owned();
        assert_eq!(
            (into(&stages[4]), into(&stages[5])),
            ("there".to_owned(), "parent".to_owned())
        );
        let parent = doc! { "product_id": "$_id" };
        let tail = [
            doc! { "$unwind": "$c" },
            doc! { "$unwind": "$c" },
            doc! { "$replaceWith": { "$mergeObjects": [&parent, "$c", &parent] } },
            doc! { "$merge": {
                "into": "review",
                "on": ["product_id", "review_id"],
                "whenMatched": "fail",
                "whenNotMatched": "insert",
            } },
        ];
        assert_eq!(stages[8..], tail);
    }
}
