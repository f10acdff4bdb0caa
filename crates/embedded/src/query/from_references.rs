//! The pipelines of the migration from references.

use mongo_patterns_core::FieldName;
use mongo_patterns_core::migration::{ChunkedFind, and, count_if, selecting};
use mongodb::bson::{Bson, Document, doc};

use super::child_ids;
use crate::form::child_id::CHILD_ID_TYPES;
use crate::settings::Settings;

/// MongoDB's limit of a document, minus what one has besides its fields.
const MAX_BYTES: i64 = 16 * 1024 * 1024 - 8 * 1024;

/// The conversion of documents that refer to a parent into its children.
pub(crate) struct FromReferences<'a> {
    pub(crate) settings: &'a Settings,
    /// The names of the collections.
    pub(crate) parents: &'a str,
    pub(crate) source: &'a str,
    /// The field of a child's document that holds the `_id` of its parent.
    pub(crate) reference: &'a FieldName,
    /// The field by which the children of a parent are ordered before their `_id`.
    pub(crate) sort: Option<&'a FieldName>,
    /// The documents to migrate.
    pub(crate) filter: &'a Document,
    /// Whether children without a valid id are skipped.
    pub(crate) skips_invalid: bool,
}

impl FromReferences<'_> {
    /// Matches a parent that has no children yet, and is not migrated to a subset.
    fn is_open(&self) -> Document {
        let array = format!("${}", self.settings.children);
        let is_missing = |path: &str| doc! { "$eq": [{ "$type": path }, "missing"] };
        let has_none = doc! { "$or": [is_missing(&array), { "$eq": [&array, []] }] };
        doc! { "$and": [has_none, is_missing(&format!("${}", self.settings.version()))] }
    }

    /// Gathers the children of a parent, in their embedded form, in a field `c`.
    ///
    /// The two fields find them by index. The expression excludes arrays, and missing references, which the fields take for
    /// null.
    fn gathered(&self) -> Document {
        let refers = doc! { "$eq": [format!("${}", self.reference), "$$parent"] };
        let mut sort = Document::new();
        if let Some(field) = self.sort {
            sort.insert(field.as_str(), 1);
        }
        sort.insert("_id", 1);
        let mut pipeline = vec![doc! { "$match": { "$expr": refers } }];
        pipeline.extend(selecting(self.selected()));
        pipeline.extend([
            doc! { "$sort": sort },
            doc! { "$project": { self.reference.as_str(): 0 } },
        ]);
        doc! { "$lookup": {
            "from": self.source,
            "localField": "_id",
            "foreignField": self.reference.as_str(),
            "let": { "parent": "$_id" },
            "pipeline": pipeline,
            "as": "c",
        } }
    }

    /// Returns the filter of the documents to migrate.
    fn selected(&self) -> Document {
        match self.skips_invalid {
            true => and(self.filter.clone(), doc! { "$expr": self.has_id() }),
            false => self.filter.clone(),
        }
    }

    /// Returns the filter of the documents that are skipped.
    pub(crate) fn invalid(&self) -> Document {
        and(self.filter.clone(), doc! { "$expr": { "$not": [self.has_id()] } })
    }

    /// Returns whether a child has a valid id, as an expression.
    fn has_id(&self) -> Document {
        doc! { "$in": [{ "$type": format!("${}", self.settings.child_id) }, CHILD_ID_TYPES.to_vec()] }
    }

    /// Walks through the parents that have no children.
    pub(crate) fn walk(&self, most: u64) -> ChunkedFind {
        ChunkedFind::by_number(doc! { "$expr": self.is_open() }, most)
    }

    /// Embeds the children of the given parents that have none. A parent that got some in between keeps them.
    pub(crate) fn transfer(&self, parents: &[Bson]) -> [Document; 5] {
        let children = self.settings.children.as_str();
        let still = doc! { "$cond": [self.is_open(), format!("$$new.{children}"), format!("${children}")] };
        [
            doc! { "$match": { "_id": { "$in": parents }, "$expr": self.is_open() } },
            doc! { "$project": { "_id": 1 } },
            self.gathered(),
            doc! { "$project": { "_id": 1, children: "$c" } },
            doc! { "$merge": {
                "into": self.parents,
                "on": "_id",
                "whenMatched": [{ "$set": { children: still } }],
                "whenNotMatched": "discard",
            } },
        ]
    }

    /// Counts the parents whose children differ from the children of the migration.
    pub(crate) fn occupied(&self) -> [Document; 6] {
        self.differing(doc! { "$ne": ["$a", "$c"] })
    }

    /// Counts the parents with children that lack a child which refers to them.
    pub(crate) fn incomplete(&self) -> [Document; 6] {
        let [embedded, referring] = ["$a", "$c"].map(|array| child_ids(self.settings, array));
        let has_all = doc! { "$setIsSubset": [referring, embedded] };
        self.differing(doc! { "$not": [{ "$cond": [{ "$isArray": "$a" }, has_all, false] }] })
    }

    /// Counts the parents whose children, in the field `a`, meet a condition with the children that refer to them, in `c`.
    fn differing(&self, condition: Document) -> [Document; 6] {
        let array = format!("${}", self.settings.children);
        let mut group = doc! { "_id": null };
        count_if(&mut group, "bad", doc! { "$not": ["$has_children"] }, 1, "$_id");
        count_if(&mut group, "occupied", doc! { "$and": ["$has_children"] }, 1, "$_id");
        let version = format!("${}", self.settings.version());
        let of_subset = doc! { "$ne": [{ "$type": version }, "missing"] };
        [
            doc! { "$match": { "$expr": { "$not": [self.is_open()] } } },
            doc! { "$project": { "a": array, "of_subset": of_subset } },
            self.gathered(),
            // A `$match` would copy both, and the server limits the copy to 16 MiB.
            doc! { "$project": {
                "has_children": { "$or": [{ "$isArray": "$a" }, "$of_subset"] },
                "differs": condition,
            } },
            doc! { "$match": { "differs": true } },
            doc! { "$group": group },
        ]
    }

    /// Looks up the parent that `_id.r` refers to. `has` is whether it exists.
    fn parent_of_group(&self) -> [Document; 2] {
        [
            doc! { "$lookup": {
                "from": self.parents, "localField": "_id.r", "foreignField": "_id", "as": "p",
            } },
            doc! { "$addFields": { "has": has_parent("$_id.r"), "p": { "$arrayElemAt": ["$p", 0] } } },
        ]
    }

    /// Counts the children, the orphans, and everything that cannot be migrated.
    pub(crate) fn inspection(&self) -> Vec<Document> {
        let settings = self.settings;
        let array = format!("$p.{}", settings.children);
        let bad = doc! { "$not": [self.has_id()] };
        let mut by_parent = doc! {
            "_id": { "r": format!("${}", self.reference) },
            "n": { "$sum": 1 },
            "bytes": { "$sum": { "$bsonSize": "$$ROOT" } },
        };
        count_if(&mut by_parent, "bad", bad, 1, "$_id");
        let size = doc! { "$cond": [{ "$isArray": &array }, { "$size": &array }, 0] };
        // The name of an element is its index, of up to ten bytes.
        let bytes = doc! { "$add": ["$bytes", { "$multiply": ["$n", 12] }, { "$bsonSize": "$p" }] };
        let has_and = |condition: Document| doc! { "$and": ["$has", condition] };
        let mut totals = doc! {
            "_id": null,
            "children": { "$sum": "$n" },
            "orphans": { "$sum": { "$cond": ["$has", 0, "$n"] } },
        };
        let count_bad = has_and(doc! { "$gt": ["$bad", 0] });
        count_if(&mut totals, "bad", count_bad, "$bad", "$badOne");
        let over = has_and(doc! { "$gt": ["$n", settings.max_bson()] });
        count_if(&mut totals, "over", over, 1, "$_id.r");
        let large = doc! { "$and": ["$has", { "$eq": [&size, 0] }, { "$gt": [bytes, MAX_BYTES] }] };
        count_if(&mut totals, "large", large, 1, "$_id.r");
        let unequal = has_and(doc! { "$ne": [&size, "$n"] });
        count_if(&mut totals, "unequal", unequal, 1, "$_id.r");
        let mut stages = Vec::from_iter(selecting(self.selected()));
        stages.push(doc! { "$group": by_parent });
        stages.extend(self.parent_of_group());
        stages.push(doc! { "$group": totals });
        stages
    }

    /// Counts the ids that belong to several children of one parent.
    pub(crate) fn repeated_ids(&self) -> Vec<Document> {
        let by_id = doc! {
            "_id": { "r": format!("${}", self.reference), "i": format!("${}", self.settings.child_id) },
            "n": { "$sum": 1 },
            "one": { "$max": "$_id" },
        };
        let mut totals = doc! { "_id": null };
        count_if(&mut totals, "bad", doc! { "$and": ["$has"] }, 1, "$one");
        let mut stages = Vec::from_iter(selecting(self.selected()));
        stages.extend([doc! { "$group": by_id }, doc! { "$match": { "n": { "$gt": 1 } } }]);
        stages.extend(self.parent_of_group());
        stages.push(doc! { "$group": totals });
        stages
    }

    /// Counts the parents and their children.
    pub(crate) fn totals(&self) -> [Document; 1] {
        let array = format!("${}", self.settings.children);
        let is_array = doc! { "$isArray": &array };
        [doc! { "$group": {
            "_id": null,
            "parents": { "$sum": 1 },
            "children": { "$sum": { "$cond": [&is_array, { "$size": array }, 0] } },
            "without": { "$sum": { "$cond": [is_array, 0, 1] } },
        } }]
    }

    /// Finds the documents that refer to no parent, as `_id` and reference.
    pub(crate) fn orphans(parents: &str, reference: &FieldName) -> [Document; 4] {
        let [project, lookup] = Self::with_parent(parents, reference);
        [
            project,
            lookup,
            doc! { "$match": { "$expr": { "$not": [has_parent("$r")] } } },
            doc! { "$project": { "r": 1 } },
        ]
    }

    /// Does the same, with an empty row for each document that refers to a parent, which shows the progress.
    pub(crate) fn orphans_and_others(parents: &str, reference: &FieldName) -> [Document; 3] {
        let [project, lookup] = Self::with_parent(parents, reference);
        let row = doc! { "_id": "$_id", "r": "$r" };
        [
            project,
            lookup,
            doc! { "$replaceWith": { "$cond": [has_parent("$r"), {}, row] } },
        ]
    }

    fn with_parent(parents: &str, reference: &FieldName) -> [Document; 2] {
        [
            doc! { "$project": { "r": format!("${reference}") } },
            doc! { "$lookup": { "from": parents, "localField": "r", "foreignField": "_id", "as": "p" } },
        ]
    }
}

/// Returns whether `p` has the parent of a reference. Excludes a missing reference and an array, which a `$lookup` by fields
/// takes for null and for each element.
fn has_parent(reference: &str) -> Bson {
    doc! { "$and": [
        { "$ne": ["$p", []] },
        { "$not": [{ "$in": [{ "$type": reference }, ["missing", "array"]] }] },
    ] }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_gathered_by_index_and_embedded_in_parents_without_children() {
        let (settings, field) = (Settings::example(), |name: &str| FieldName::new(name).unwrap());
        let (reference, sort) = (field("patron_id"), field("since"));
        let form = FromReferences {
            settings: &settings,
            parents: "patron",
            source: "address",
            reference: &reference,
            sort: Some(&sort),
            filter: &doc! {},
            skips_invalid: false,
        };
        let open = doc! { "$and": [
            { "$or": [{ "$eq": [{ "$type": "$addresses" }, "missing"] }, { "$eq": ["$addresses", []] }] },
            { "$eq": [{ "$type": "$addresses_version" }, "missing"] },
        ] };
        let gathered = doc! { "$lookup": {
            "from": "address",
            "localField": "_id",
            "foreignField": "patron_id",
            "let": { "parent": "$_id" },
            "pipeline": [
                { "$match": { "$expr": { "$eq": ["$patron_id", "$$parent"] } } },
                { "$sort": { "since": 1, "_id": 1 } },
                { "$project": { "patron_id": 0 } },
            ],
            "as": "c",
        } };
        let still = doc! { "$cond": [&open, "$$new.addresses", "$addresses"] };
        let merge = doc! { "$merge": {
            "into": "patron",
            "on": "_id",
            "whenMatched": [{ "$set": { "addresses": still } }],
            "whenNotMatched": "discard",
        } };
        let expected = [
            doc! { "$match": { "_id": { "$in": ["joe"] }, "$expr": &open } },
            doc! { "$project": { "_id": 1 } },
            gathered,
            doc! { "$project": { "_id": 1, "addresses": "$c" } },
            merge,
        ];
        assert_eq!(form.transfer(&["joe".into()]), expected);
    }

    #[test]
    fn an_orphan_refers_to_no_parent_or_by_no_single_value() {
        let [_, lookup, filter, _] = FromReferences::orphans("patron", &FieldName::new("patron_id").unwrap());
        let by_fields = doc! { "from": "patron", "localField": "r", "foreignField": "_id", "as": "p" };
        assert_eq!(lookup, doc! { "$lookup": by_fields });
        let has = doc! { "$and": [
            { "$ne": ["$p", []] },
            { "$not": [{ "$in": [{ "$type": "$r" }, ["missing", "array"]] }] },
        ] };
        assert_eq!(filter, doc! { "$match": { "$expr": { "$not": [has] } } });
    }
}
