//! Aggregations over whole collections: stale subsets, orphaned children, and the rebuild of all subsets.
//!
//! # Design
//!
//! ## Why does a rebuild for another order write every parent?
//!
//! A refresh may have read the children by the old order before its index was dropped. Its write would succeed after
//! the rebuild if the version were still the same.
//!
//! ## Why does the first attempt of a rebuild fail at a parent that another client has written?
//!
//! The other client may have read the children before the rebuild began, so the parent needs another check. A `$merge`
//! does not report which documents it left unchanged, and a scan for stale parents costs nearly as much as the rebuild.
//! If the attempt succeeds, no parent needs that check. It also fails at an unmanaged parent, so that it needs no lookup
//! of the ids of all children.
//!
//! ## Why is a condition a field, before a `$match` reads it?
//!
//! A `$match` copies the fields that its `$expr` reads into one document, and the server limits that to 16 MiB. An array of a
//! parent and what it is compared with may be larger together. A field that is computed has no such limit.

mod computed;
mod further;

use super::embedded_ids::{arrays, ids_of, is_unmanaged, is_unmanaged_at};
use super::{by_id, children_of, embedded, is_version, next_version};
use crate::prelude::*;

/// The field of a row with whether each of several subsets is stale.
pub(crate) const STALE: &str = "stale";

/// The field with whether a stage selects a document.
pub(crate) const SELECTED: &str = "selected";

/// Returns the stages that compute what each parent must store: first a projection of the parent, then the lookups of
/// its children. A missing version is `null`.
fn truth(settings: &Settings, children: &str) -> (Document, Vec<Document>) {
    let mut projected = doc! {
        "subset": format!("${}", settings.subset),
        "version": { "$ifNull": [format!("${}", settings.version), null] },
    };
    if let Some(total) = &settings.total {
        projected.insert("total", format!("${total}"));
    }
    projected.extend(further::stored(settings));
    projected.extend(computed::stored(settings));
    (doc! { "$project": projected }, lookups(settings, children))
}

/// Returns the stages that look up the first children of a parent as `truth` and, for a total, their number as `counted`.
/// Then those of the computed fields.
fn lookups(settings: &Settings, children: &str) -> Vec<Document> {
    let is_child = doc! { "$expr": { "$eq": [format!("${}", settings.parent), "$$id"] } };
    let first = [
        doc! { "$match": &is_child },
        doc! { "$sort": settings.sort() },
        doc! { "$limit": i64::from(settings.size) },
        doc! { "$project": embedded(settings, settings.embedded_fields.as_deref()) },
    ];
    let lookup = |pipeline: &[Document], name: &str| {
        doc! { "$lookup": { "from": children, "let": { "id": "$_id" }, "pipeline": pipeline.to_vec(), "as": name } }
    };
    let mut lookups = vec![lookup(&first, "truth")];
    lookups.extend(further::lookups(settings, &is_child, lookup));
    if settings.total.is_some() {
        let count = doc! { "$group": { "_id": null, "children": { "$sum": 1_i64 } } };
        lookups.push(lookup(&[first[0].clone(), count], "counted"));
        // The `$sum` of no number would be an `int`.
        let counted = doc! { "$add": [{ "$sum": "$counted.children" }, 0_i64] };
        lookups.push(doc! { "$set": { "counted": counted } });
    }
    lookups.extend(computed::lookups(settings, |values| {
        let pipeline: Vec<Document> = first[..1].iter().cloned().chain(values).collect();
        lookup(&pipeline, computed::FOUND)
    }));
    lookups
}

/// Returns the ids and versions of stale parents, and which of several subsets are stale: among all, or one.
pub(crate) fn stale(settings: &Settings, children: &str, parent: Option<&Bson>) -> Vec<Document> {
    let (comparison, is_stale) = compared(settings, children);
    let mut stages: Vec<Document> = parent.map(|id| doc! { "$match": by_id(id) }).into_iter().collect();
    stages.extend(comparison);
    let mut row = doc! { "version": 1 };
    if !settings.further.is_empty() {
        row.insert(STALE, subsets_differ(settings));
    }
    row.insert(SELECTED, is_stale);
    stages.extend([doc! { "$project": row }, selected()]);
    stages
}

/// Selects the documents in which a computed condition is met.
pub(crate) fn selected() -> Document {
    doc! { "$match": { SELECTED: true } }
}

/// Whether each subset differs from the first children, as expressions.
fn subsets_differ(settings: &Settings) -> Vec<Document> {
    // A parent without children may have no subset, no total and no computed fields.
    let mut differ = vec![doc! { "$ne": [{ "$ifNull": ["$subset", []] }, "$truth"] }];
    differ.extend(further::differs(settings));
    differ
}

/// Returns the ids and versions of all stale parents, and an empty row for each other one, which shows the progress of
/// the server.
pub(crate) fn stale_with_progress(settings: &Settings, children: &str) -> Vec<Document> {
    let (mut stages, is_stale) = compared(settings, children);
    let row = doc! { "_id": "$_id", "version": "$version" };
    stages.push(doc! { "$replaceWith": { "$cond": [is_stale, row, {}] } });
    stages
}

/// Returns the stages that compare parents with their children, and whether a parent is stale, as an expression.
fn compared(settings: &Settings, children: &str) -> (Vec<Document>, Document) {
    let (projected, lookups) = truth(settings, children);
    let mut stages = vec![projected];
    stages.extend(lookups);
    let mut differs = subsets_differ(settings);
    if settings.total.is_some() {
        differs.push(doc! { "$ne": [{ "$ifNull": ["$total", 0] }, "$counted"] });
    }
    differs.extend(computed::differs(settings));
    (stages, either(differs))
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
    /// Those among the parents of a filter.
    StaleAmong(&'a Document),
    /// Those among these.
    StaleOf(&'a [Bson]),
    /// All of these, so that no concurrent refresh can write what it read earlier.
    AllOf(&'a [Bson]),
}

/// Writes the subsets of parents whose version is still the same. An unmanaged parent is written only if all children
/// that it embeds are stored, and if it still embeds the same ones.
pub(crate) fn rebuild(settings: &Settings, parents: &str, children: &str, scope: RebuildScope<'_>) -> Vec<Document> {
    let (subset, version) = (settings.subset.as_str(), settings.version.as_str());
    let version_path = format!("${version}");
    let mut stages = Vec::new();
    if let RebuildScope::StaleOf(ids) | RebuildScope::AllOf(ids) = scope {
        stages.push(doc! { "$match": { "_id": { "$in": ids } } });
    }
    if let RebuildScope::StaleAmong(filter) = scope {
        stages.push(doc! { "$match": filter });
    }
    let (projected, lookups) = truth(settings, children);
    stages.push(projected);
    let stored = further::projected_arrays(settings);
    stages.push(doc! { "$set": {
        "unmanaged": is_unmanaged_at(settings, &stored, "$version"),
        "ids": { "$cond": [is_version("$version"), null, ids_of(settings, &stored)] },
    } });
    // No child belongs to MinKey, so nothing is read for managed parents.
    let of_unmanaged = doc! { "id": { "$cond": ["$unmanaged", "$_id", Bson::MinKey] } };
    // Before the first children are read: if all embedded ones were stored by then, none is missing afterwards.
    stages.push(ids_of_children(settings, children, of_unmanaged, "found"));
    stages.extend(lookups);
    let mut is_due = vec![doc! { "$or": [{ "$not": ["$unmanaged"] }, has_all_embedded(settings)] }];
    if !matches!(scope, RebuildScope::AllOf(_)) {
        let mut is_stale = vec![Bson::from("$unmanaged"), doc! { "$ne": ["$subset", "$truth"] }.into()];
        if settings.total.is_some() {
            is_stale.push(doc! { "$ne": ["$total", "$counted"] }.into());
        }
        is_stale.extend(further::must_be_written(settings).map(Bson::from));
        is_stale.extend(computed::must_be_written(settings).map(Bson::from));
        is_due.push(doc! { "$or": is_stale });
    }
    let is_same = doc! { "$and": [
        { "$eq": [{ "$ifNull": [&version_path, null] }, "$$new.version"] },
        { "$or": [
            { "$eq": ["$$new.ids", null] },
            { "$eq": ["$$new.ids", ids_of(settings, &arrays(settings))] },
        ] },
    ] };
    let mut written = doc! {
        subset: { "$cond": [&is_same, "$$new.truth", format!("${subset}")] },
        version: { "$cond": [&is_same, next_version(settings), &version_path] },
    };
    let mut new = doc! { "version": 1, "truth": 1, "ids": 1 };
    if let Some(total) = &settings.total {
        let counted = doc! { "$cond": [&is_same, "$$new.counted", format!("${total}")] };
        written.insert(total.as_str(), counted);
        new.insert("counted", 1);
    }
    for (field, name) in further::names(settings).chain(computed::names(settings)) {
        let computed = doc! { "$cond": [&is_same, format!("$$new.{name}"), format!("${field}")] };
        written.insert(field.as_str(), computed);
        new.insert(name, 1);
    }
    let written = doc! { "$set": written };
    new.insert(SELECTED, doc! { "$and": is_due });
    stages.extend([
        doc! { "$project": new },
        selected(),
        doc! { "$merge": { "into": parents, "on": "_id", "whenMatched": [written], "whenNotMatched": "discard" } },
    ]);
    stages
}

/// The server's code for the error of [`rebuild_undisturbed`] at a parent that it must not write.
pub(crate) const CONVERSION_FAILURE: i32 = 241;

/// Writes the stale subsets. Fails at an unmanaged parent, and at a parent that another client has written since its
/// version was read.
pub(crate) fn rebuild_undisturbed(settings: &Settings, parents: &str, children: &str) -> Vec<Document> {
    let (subset, version) = (settings.subset.as_str(), settings.version.as_str());
    let version_path = format!("${version}");
    // No name of a type is a number. An expression of a constant would fail before the first parent is read.
    let fail = doc! { "$toInt": { "$type": &version_path } };
    let mut projected = doc! {
        "subset": format!("${subset}"),
        "version": { "$cond": [is_unmanaged(settings), &fail, &version_path] },
        "managed": is_version(&version_path),
        "next": next_version(settings),
    };
    let mut is_stale = vec![doc! { "$ne": ["$subset", "$truth"] }];
    let mut new = doc! { "version": 1, "managed": 1, "next": 1, "truth": 1 };
    // The server parses the update again for each parent, so it is short. A parent without a version embeds no children.
    let is_same = doc! { "$and": [
        { "$eq": [&version_path, "$$new.version"] },
        { "$or": ["$$new.managed", embeds_none(settings)] },
    ] };
    let mut written = doc! {
        subset: "$$new.truth",
        version: { "$cond": [is_same, "$$new.next", fail] },
    };
    if let Some(total) = &settings.total {
        projected.insert("total", format!("${total}"));
        is_stale.push(doc! { "$ne": ["$total", "$counted"] });
        new.insert("counted", 1);
        written.insert(total.as_str(), "$$new.counted");
    }
    projected.extend(further::stored(settings));
    projected.extend(computed::stored(settings));
    is_stale.extend(further::must_be_written(settings));
    is_stale.extend(computed::must_be_written(settings));
    for (field, name) in further::names(settings).chain(computed::names(settings)) {
        written.insert(field.as_str(), format!("$$new.{name}"));
        new.insert(name, 1);
    }
    let written = doc! { "$set": written };
    let mut stages = vec![doc! { "$project": projected }];
    stages.extend(lookups(settings, children));
    new.insert(SELECTED, either(is_stale));
    stages.extend([
        doc! { "$project": new },
        selected(),
        doc! { "$merge": { "into": parents, "on": "_id", "whenMatched": [written], "whenNotMatched": "discard" } },
    ]);
    stages
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
    match settings.further.is_empty() {
        true => has_all(ids, &stored),
        false => {
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
        let stages = rebuild(&Settings::example(), "product", "review", RebuildScope::Stale);
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
