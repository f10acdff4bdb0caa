//! Aggregations over whole collections: stale subsets, orphaned children, and the rebuild of all subsets.
//!
//! # Design
//!
//! ## Why does a rebuild for another order write every parent?
//!
//! A refresh may have read the children by the old order before its index was dropped. Its write would succeed after the
//! rebuild if the version were still the same.
//!
//! ## Why does the first attempt of a rebuild fail at a parent that another client has written?
//!
//! The other client may have read the children before the rebuild began, so the parent needs another check. A `$merge` does
//! not report which documents it left unchanged, and a scan costs nearly as much as the rebuild. If the attempt succeeds, no
//! parent needs that check. It also fails at an unmanaged parent, so that it needs no lookup of the ids of all children.
//!
//! ## Why is a condition a field, before a `$match` reads it?
//!
//! A `$match` copies the fields that its `$expr` reads into one document, and the server limits that to 16 MiB. A computed
//! field has no such limit.

mod columns;

use mongodb::bson::{Bson, Document, doc};

use self::columns::{Column, columns, lookups};
use super::embedded_ids::{arrays, embedded_ids, ids_of, is_unmanaged, is_unmanaged_at};
use super::{by_id, children_of, is_version, next_version};
use crate::settings::Settings;

/// The field of a row with whether each of several subsets is stale.
pub(crate) const STALE: &str = "stale";

/// The field of the row of one parent with the number of children that only it embeds, if it has a version.
pub(crate) const NOT_STORED: &str = "not_stored";

/// The field with whether a stage selects a document.
pub(crate) const SELECTED: &str = "selected";

/// Returns fields of a parent in their order, with the version and its fields after the first subset.
fn with_version(fields: impl IntoIterator<Item = (String, Bson)>, version: Document) -> Document {
    let mut fields = fields.into_iter();
    let mut document: Document = fields.by_ref().take(1).collect();
    document.extend(version);
    document.extend(fields);
    document
}

/// Projects the stored fields of a parent. A missing version is `null`.
fn stored(settings: &Settings, columns: &[Column<'_>]) -> Document {
    let version = doc! { "version": { "$ifNull": [format!("${}", settings.version), null] } };
    doc! { "$project": with_version(columns.iter().map(Column::projected), version) }
}

/// Returns the ids and versions of stale parents, and which of several subsets are stale. For one parent, it also counts the
/// children that only it embeds.
pub(crate) fn stale(settings: &Settings, children: &str, parent: Option<&Bson>) -> Vec<Document> {
    let (comparison, differ) = compared(settings, children);
    let mut stages: Vec<Document> = parent.map(|id| doc! { "$match": by_id(id) }).into_iter().collect();
    stages.extend(comparison);
    let mut row = doc! { "version": 1 };
    if parent.is_some() {
        stages.push(ids_of_children(settings, children, doc! { "id": "$_id" }, "found"));
        row.insert(NOT_STORED, not_stored(settings));
    }
    if settings.subsets.len() > 1 {
        row.insert(STALE, differ[..settings.subsets.len()].to_vec());
    }
    row.insert(SELECTED, either(differ));
    stages.extend([doc! { "$project": row }, selected()]);
    stages
}

/// Selects the documents in which a computed condition is met.
pub(crate) fn selected() -> Document {
    doc! { "$match": { SELECTED: true } }
}

/// Returns the ids and versions of all stale parents, and an empty row for each other parent, which shows the progress.
pub(crate) fn stale_with_progress(settings: &Settings, children: &str) -> Vec<Document> {
    let (mut stages, differ) = compared(settings, children);
    let row = doc! { "_id": "$_id", "version": "$version" };
    stages.push(doc! { "$replaceWith": { "$cond": [either(differ), row, {}] } });
    stages
}

/// Returns the stages that compare parents with their children, and whether each subset and figure differs, as expressions.
fn compared(settings: &Settings, children: &str) -> (Vec<Document>, Vec<Document>) {
    let mut columns = columns(settings);
    let mut stages = vec![stored(settings, &columns)];
    stages.extend(lookups(settings, children));
    columns.sort_by_key(|column| column.figure.is_some());
    (stages, columns.iter().map(Column::differs).collect())
}

fn either(mut conditions: Vec<Document>) -> Document {
    match conditions.len() {
        1 => conditions.remove(0),
        _ => doc! { "$or": conditions },
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum RebuildScope<'a> {
    /// All whose subset is not exactly the first of their children.
    Stale,
    /// Those among the parents of a filter, which may be empty.
    StaleAmong(&'a Document),
    /// Those among these.
    StaleOf(&'a [Bson]),
    /// All of these, so that no concurrent refresh can write older children.
    AllOf(&'a [Bson]),
}

/// Writes the subsets of parents whose version is still the same. An unmanaged parent is written only if all children that
/// it embeds are stored; with `keeps_embedded`, each parent.
pub(crate) fn rebuild(
    settings: &Settings,
    parents: &str,
    children: &str,
    scope: RebuildScope<'_>,
    keeps_embedded: bool,
) -> Vec<Document> {
    let version = format!("${}", settings.version);
    let columns = columns(settings);
    let among = match scope {
        RebuildScope::Stale => None,
        RebuildScope::StaleAmong(filter) => Some(filter.clone()).filter(|filter| !filter.is_empty()),
        RebuildScope::StaleOf(ids) | RebuildScope::AllOf(ids) => Some(doc! { "_id": { "$in": ids } }),
    };
    let mut stages: Vec<_> = among.map(|filter| doc! { "$match": filter }).into_iter().collect();
    stages.push(stored(settings, &columns));
    let embedded = stored_arrays(&columns);
    let ids = ids_of(settings, &embedded);
    stages.push(doc! { "$set": {
        "unmanaged": is_unmanaged_at(settings, &embedded, "$version"),
        "ids": match keeps_embedded {
            true => ids,
            false => doc! { "$cond": [is_version("$version"), null, ids] }.into(),
        },
    } });
    let mut is_stale = vec![Bson::from("$unmanaged")];
    is_stale.extend(columns.iter().map(|column| column.must_be_written().into()));
    let is_stale = match scope {
        RebuildScope::AllOf(_) => doc! { "$literal": true },
        _ => doc! { "$or": is_stale },
    };
    let look_up_ids = |id: Bson| ids_of_children(settings, children, doc! { "id": id }, "found");
    let is_due = if keeps_embedded {
        // Few parents are stale, so the ids of their children are read last.
        stages.extend(lookups(settings, children));
        stages.extend([doc! { "$set": { SELECTED: is_stale } }, selected()]);
        stages.push(look_up_ids("$_id".into()));
        has_all_embedded(settings)
    } else {
        // No child belongs to MinKey, so nothing is read for managed parents. Before the first children are read: if all
        // embedded ones were stored by then, none is missing afterwards.
        stages.push(look_up_ids(
            doc! { "$cond": ["$unmanaged", "$_id", Bson::MinKey] }.into(),
        ));
        stages.extend(lookups(settings, children));
        let may_be_written = doc! { "$or": [{ "$not": ["$unmanaged"] }, has_all_embedded(settings)] };
        doc! { "$and": [may_be_written, is_stale] }
    };
    let is_same = doc! { "$and": [
        { "$eq": [{ "$ifNull": [&version, null] }, "$$new.version"] },
        { "$or": [
            { "$eq": ["$$new.ids", null] },
            { "$eq": ["$$new.ids", ids_of(settings, &arrays(settings))] },
        ] },
    ] };
    let set = |new: String, old: String| doc! { "$cond": [&is_same, new, old] };
    let next = doc! { "$cond": [&is_same, next_version(settings), version] };
    let new = doc! { "version": 1, "truth": 1, "ids": 1 };
    stages.extend(written(settings, parents, new, is_due, next, set));
    stages
}

/// The server's code for the error of [`rebuild_undisturbed`] at a parent that it must not write.
pub(crate) const CONVERSION_FAILURE: i32 = 241;

/// Writes the stale subsets. Fails at an unmanaged parent, and at a parent that another client has written in between.
pub(crate) fn rebuild_undisturbed(settings: &Settings, parents: &str, children: &str) -> Vec<Document> {
    let version = format!("${}", settings.version);
    let columns = columns(settings);
    // No name of a type is a number. An expression of a constant would fail before the first parent is read.
    let fail = doc! { "$toInt": { "$type": &version } };
    let state = doc! {
        "version": { "$cond": [is_unmanaged(settings), &fail, &version] },
        "managed": is_version(&version),
        "next": next_version(settings),
    };
    let mut stages = vec![doc! { "$project": with_version(columns.iter().map(Column::projected), state) }];
    stages.extend(lookups(settings, children));
    // The server parses the update again for each parent, so it is short. A parent without a version embeds no children.
    let is_same = doc! { "$and": [
        { "$eq": [version, "$$new.version"] },
        { "$or": ["$$new.managed", embeds_none(settings)] },
    ] };
    let next = doc! { "$cond": [is_same, "$$new.next", fail] };
    let new = doc! { "version": 1, "managed": 1, "next": 1, "truth": 1 };
    let is_stale = either(columns.iter().map(Column::must_be_written).collect());
    stages.extend(written(settings, parents, new, is_stale, next, |new, _| new));
    stages
}

/// Returns the stages that write parents that are due, with their next version, and each field as `set` has it by the paths
/// of its new and its old value.
fn written<T: Into<Bson>>(
    settings: &Settings,
    parents: &str,
    mut new: Document,
    is_due: Document,
    next_version: Document,
    set: impl Fn(String, String) -> T,
) -> [Document; 3] {
    let columns = columns(settings);
    new.extend(columns.iter().map(|column| (column.truth.clone(), Bson::Int32(1))));
    new.insert(SELECTED, is_due);
    let fields = columns.iter().map(|Column { field, truth, .. }| {
        let set = set(format!("$$new.{truth}"), format!("${field}"));
        (field.as_str().to_owned(), set.into())
    });
    let written = doc! { "$set": with_version(fields, doc! { settings.version.as_str(): next_version }) };
    [
        doc! { "$project": new },
        selected(),
        doc! { "$merge": { "into": parents, "on": "_id", "whenMatched": [written], "whenNotMatched": "discard" } },
    ]
}

/// Whether a parent embeds no children, as an expression.
fn embeds_none(settings: &Settings) -> Document {
    let arrays = arrays(settings).into_iter();
    let mut none: Vec<Document> = arrays
        .map(|array| doc! { "$eq": [{ "$ifNull": [array, []] }, []] })
        .collect();
    match none.len() {
        1 => none.remove(0),
        _ => doc! { "$and": none },
    }
}

/// Returns the paths of the projected arrays.
fn stored_arrays(columns: &[Column<'_>]) -> Vec<String> {
    let subsets = columns.iter().filter(|column| column.figure.is_none());
    subsets.map(Column::stored).collect()
}

/// The number of children that only a parent with a version has, as an expression.
fn not_stored(settings: &Settings) -> Document {
    let ids = |array: &String| {
        let ids = embedded_ids(settings, array);
        doc! { "$cond": [{ "$isArray": array }, ids, []] }
    };
    let embedded: Vec<_> = stored_arrays(&columns(settings)).iter().map(ids).collect();
    let others = doc! { "$setDifference": [{ "$setUnion": embedded }, looked_up_ids("found")] };
    doc! { "$cond": [is_version("$version"), { "$size": others }, 0] }
}

/// Looks up the ids of the children of `$$id`, for [`looked_up_ids`].
pub(super) fn ids_of_children(settings: &Settings, children: &str, id: Document, into: &str) -> Document {
    let is_child = doc! { "$expr": { "$eq": [format!("${}", settings.parent), "$$id"] } };
    let ids = [
        doc! { "$match": is_child },
        // A document for each id takes ten times the memory, which the server limits.
        doc! { "$group": { "_id": null, "i": { "$push": format!("${}", settings.child_id) } } },
    ];
    doc! { "$lookup": { "from": children, "let": id, "pipeline": ids.to_vec(), "as": into } }
}

/// The ids that [`ids_of_children`] has looked up, as an expression.
pub(super) fn looked_up_ids(from: &str) -> Document {
    doc! { "$ifNull": [{ "$arrayElemAt": [format!("${from}.i"), 0] }, []] }
}

/// Whether all children that an unmanaged parent embeds are stored, as an expression.
fn has_all_embedded(settings: &Settings) -> Document {
    let (ids, stored) = ("$ids", looked_up_ids("found"));
    match settings.subsets.len() {
        1 => has_all(ids, &stored),
        _ => {
            let each = doc! { "$map": { "input": ids, "as": "of_subset", "in": has_all("$$of_subset", &stored) } };
            doc! { "$allElementsTrue": [{ "$ifNull": [each, [false]] }] }
        }
    }
}

/// Whether ids are distinct, and all among others, as an expression.
fn has_all(ids: &str, others: &Document) -> Document {
    let all = doc! { "$and": [
        { "$not": [{ "$in": [null, ids] }] },
        { "$eq": [{ "$size": { "$setUnion": [ids, []] } }, { "$size": ids }] },
        { "$setIsSubset": [ids, others] },
    ] };
    doc! { "$cond": [{ "$isArray": ids }, all, false] }
}

/// Returns the missing parents that children refer to, with the number of these children: among all, or one.
pub(crate) fn orphans(settings: &Settings, parents: &str, parent: Option<&Bson>) -> Vec<Document> {
    let is_parent = [
        doc! { "$match": { "$expr": { "$eq": ["$_id", "$$id"] } } },
        doc! { "$project": { "_id": 1 } },
    ];
    let lookup = doc! { "from": parents, "let": { "id": "$_id" }, "pipeline": is_parent.to_vec(), "as": "found" };
    let children = parent.map(|parent| doc! { "$match": children_of(settings, parent) });
    let mut stages: Vec<Document> = children.into_iter().collect();
    stages.extend([
        doc! { "$group": { "_id": format!("${}", settings.parent), "children": { "$sum": 1_i64 } } },
        doc! { "$lookup": lookup },
        doc! { "$match": { "found": { "$size": 0 } } },
        doc! { "$project": { "children": 1 } },
        // The server groups in no particular order.
        doc! { "$sort": { "_id": 1 } },
    ]);
    stages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_writes_only_unchanged_parents() {
        let stages = rebuild(&Settings::example(), "product", "review", RebuildScope::Stale, false);
        let merge = stages.last().unwrap().get_document("$merge").unwrap();
        let next = doc! { "$add": [
            { "$cond": [{ "$in": [{ "$type": "$reviews_version" }, ["int", "long"]] }, "$reviews_version", 0_i64] },
            1_i64,
        ] };
        let is_same = doc! { "$and": [
            { "$eq": [{ "$ifNull": ["$reviews_version", null] }, "$$new.version"] },
            { "$or": [
                { "$eq": ["$$new.ids", null] },
                { "$eq": ["$$new.ids", ids_of(&Settings::example(), &["$reviews".to_owned()])] },
            ] },
        ] };
        assert_eq!(
            merge,
            &doc! {
                "into": "product",
                "on": "_id",
                "whenMatched": [{ "$set": {
                    "reviews": { "$cond": [&is_same, "$$new.truth", "$reviews"] },
                    "reviews_version": { "$cond": [&is_same, next, "$reviews_version"] },
                } }],
                "whenNotMatched": "discard",
            }
        );
    }

    #[test]
    fn an_undisturbed_rebuild_reads_the_children_once() {
        let settings = Settings::example();
        let stages = rebuild_undisturbed(&settings, "product", "review");
        let fail = doc! { "$toInt": { "$type": "$reviews_version" } };
        let is_same = doc! { "$and": [
            { "$eq": ["$reviews_version", "$$new.version"] },
            { "$or": ["$$new.managed", { "$eq": [{ "$ifNull": ["$reviews", []] }, []] }] },
        ] };
        let version = doc! { "$cond": [is_same, "$$new.next", &fail] };
        let expected = [
            doc! { "$project": {
                "subset": "$reviews",
                "version": { "$cond": [is_unmanaged(&settings), &fail, "$reviews_version"] },
                "managed": is_version("$reviews_version"),
                "next": next_version(&settings),
            } },
            lookups(&settings, "review").remove(0),
            doc! { "$project": {
                "version": 1,
                "managed": 1,
                "next": 1,
                "truth": 1,
                "selected": { "$ne": ["$subset", "$truth"] },
            } },
            doc! { "$match": { "selected": true } },
            doc! { "$merge": {
                "into": "product",
                "on": "_id",
                "whenMatched": [{ "$set": { "reviews": "$$new.truth", "reviews_version": version } }],
                "whenNotMatched": "discard",
            } },
        ];
        assert_eq!(stages, expected);
    }

    #[test]
    fn a_rebuild_compares_and_writes_all_subsets() {
        let settings = Settings::example().with_best();
        let stages = rebuild_undisturbed(&settings, "product", "review");
        let looked_up = |stage: &Document| Some(stage.get_document("$lookup").ok()?.get_str("as").ok()?.to_owned());
        assert_eq!(
            stages.iter().filter_map(looked_up).collect::<Vec<_>>(),
            ["truth", "truth0"]
        );
        let is_stale = doc! { "$or": [
            { "$ne": ["$subset", "$truth"] },
            { "$ne": ["$further0", "$truth0"] },
        ] };
        let compared = stages[stages.len() - 3].get_document("$project").unwrap();
        assert_eq!(compared.get_document("selected").unwrap(), &is_stale);
        let written = stages.last().unwrap().to_string();
        assert!(written.contains(r#""top_rated": "$$new.truth0""#), "{written}");
        let is_empty = |array: &str| doc! { "$eq": [{ "$ifNull": [array, []] }, []] };
        assert_eq!(
            embeds_none(&settings),
            doc! { "$and": [is_empty("$reviews"), is_empty("$top_rated")] }
        );

        let stages = stale(&settings, "review", None);
        let differ = [("$subset", "$truth"), ("$further0", "$truth0")]
            .map(|(stored, truth)| doc! { "$ne": [{ "$ifNull": [stored, []] }, truth] });
        let row = doc! { "version": 1, "stale": differ.to_vec(), "selected": { "$or": differ.to_vec() } };
        assert_eq!(stages[stages.len() - 2], doc! { "$project": row });
    }
}
