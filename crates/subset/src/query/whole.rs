//! The aggregations over whole collections: what is stale, what is orphaned, and making all subsets anew.

use mongodb::bson::{Bson, Document, doc};

use super::{by_id, children_of, embedded, embedded_ids, is_unwritten_at, is_version, next_version};
use crate::settings::Settings;

/// The stages that put beside each parent its version, and what it must show: first those that look at the parent, then
/// those that look at its children. `version` and `truth`, and `counted`, where it has a total. A missing version is
/// `null`.
fn truth(settings: &Settings, children: &str) -> (Document, Vec<Document>) {
    let is_child = doc! { "$expr": { "$eq": [format!("${}", settings.parent), "$$id"] } };
    let first = [
        doc! { "$match": is_child },
        doc! { "$sort": settings.sort() },
        doc! { "$limit": i64::from(settings.size) },
        doc! { "$project": embedded(settings) },
    ];
    let mut looked_at = doc! {
        "subset": format!("${}", settings.subset),
        "version": { "$ifNull": [format!("${}", settings.version), null] },
    };
    let lookup = |pipeline: &[Document], name: &str| {
        doc! { "$lookup": { "from": children, "let": { "id": "$_id" }, "pipeline": pipeline.to_vec(), "as": name } }
    };
    let mut lookups = vec![lookup(&first, "truth")];
    if let Some(total) = &settings.total {
        looked_at.insert("total", format!("${total}"));
        let count = doc! { "$group": { "_id": null, "children": { "$sum": 1_i64 } } };
        lookups.push(lookup(&[first[0].clone(), count], "counted"));
        // the sum of one number, or of none, which would be an `int`
        let counted = doc! { "$add": [{ "$sum": "$counted.children" }, 0_i64] };
        lookups.push(doc! { "$set": { "counted": counted } });
    }
    (doc! { "$project": looked_at }, lookups)
}

/// The ids and versions of parents whose subset is not the first of their children: of all, or of one.
pub(crate) fn stale(settings: &Settings, children: &str, parent: Option<&Bson>) -> Vec<Document> {
    let (looks, is_stale) = compared(settings, children);
    let mut stages: Vec<Document> = parent.map(|id| doc! { "$match": by_id(id) }).into_iter().collect();
    stages.extend(looks);
    stages.extend([
        doc! { "$match": { "$expr": is_stale } },
        doc! { "$project": { "version": 1 } },
    ]);
    stages
}

/// The same of all, and an empty row for each parent that is right: so the client sees how far the server is.
pub(crate) fn stale_and_right(settings: &Settings, children: &str) -> Vec<Document> {
    let (mut stages, is_stale) = compared(settings, children);
    let row = doc! { "_id": "$_id", "version": "$version" };
    stages.push(doc! { "$replaceWith": { "$cond": [is_stale, row, {}] } });
    stages
}

/// The stages that look at parents and their children, and whether the subset is wrong, as an expression.
fn compared(settings: &Settings, children: &str) -> (Vec<Document>, Document) {
    let (looked_at, lookups) = truth(settings, children);
    let mut stages = vec![looked_at];
    stages.extend(lookups);
    // A parent without children may also have no subset, and no total.
    let mut differs = vec![doc! { "$ne": [{ "$ifNull": ["$subset", []] }, "$truth"] }];
    if settings.total.is_some() {
        differs.push(doc! { "$ne": [{ "$ifNull": ["$total", 0] }, "$counted"] });
    }
    (stages, either(differs))
}

fn either(mut conditions: Vec<Document>) -> Document {
    match conditions.len() {
        1 => conditions.remove(0),
        _ => doc! { "$or": conditions },
    }
}

/// Which parents a rebuild is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rebuilt<'a> {
    /// Those whose subset is not exactly the first of their children.
    Wrong,
    /// Of these, the same.
    WrongOf(&'a [Bson]),
    /// All of these, so that no refresh that is under way can write what it read before.
    AllOf(&'a [Bson]),
}

/// Writes every subset that is not exactly the first of the children, where its version is still the same. A parent
/// that no repository wrote is written where all that is embedded in it is among the children, and is still the same.
pub(crate) fn rebuild_all(settings: &Settings, parents: &str, children: &str, which: Rebuilt<'_>) -> Vec<Document> {
    let (subset, version) = (settings.subset.as_str(), settings.version.as_str());
    let version_path = format!("${version}");
    let mut stages = Vec::new();
    if let Rebuilt::WrongOf(ids) | Rebuilt::AllOf(ids) = which {
        stages.push(doc! { "$match": { "_id": { "$in": ids } } });
    }
    let (looked_at, lookups) = truth(settings, children);
    stages.push(looked_at);
    stages.push(doc! { "$set": {
        "unwritten": is_unwritten_at(settings, "$subset", "$version"),
        "ids": { "$cond": [is_version("$version"), null, embedded_ids(settings, "$subset")] },
    } });
    // No child is one of MinKey, so nothing is read for the others.
    let of_unwritten = doc! { "id": { "$cond": ["$unwritten", "$_id", Bson::MinKey] } };
    // Before the first ones: where all are there, they are the first of all.
    stages.push(ids_of_children(settings, children, of_unwritten, "found"));
    stages.extend(lookups);
    let mut is_due = vec![doc! { "$or": [{ "$not": ["$unwritten"] }, has_all("$ids", "$found.i")] }];
    if !matches!(which, Rebuilt::AllOf(_)) {
        let mut is_wrong = vec![Bson::from("$unwritten"), doc! { "$ne": ["$subset", "$truth"] }.into()];
        if settings.total.is_some() {
            is_wrong.push(doc! { "$ne": ["$total", "$counted"] }.into());
        }
        is_due.push(doc! { "$or": is_wrong });
    }
    let is_same = doc! { "$and": [
        { "$eq": [{ "$ifNull": [&version_path, null] }, "$$new.version"] },
        { "$or": [
            { "$eq": ["$$new.ids", null] },
            { "$eq": ["$$new.ids", embedded_ids(settings, &format!("${subset}"))] },
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
    let written = doc! { "$set": written };
    stages.extend([
        doc! { "$match": { "$expr": { "$and": is_due } } },
        doc! { "$project": new },
        doc! { "$merge": { "into": parents, "on": "_id", "whenMatched": [written], "whenNotMatched": "discard" } },
    ]);
    stages
}

/// Looks up the ids of the children of `$$id`, as documents with a field `i`.
pub(crate) fn ids_of_children(settings: &Settings, children: &str, id: Document, into: &str) -> Document {
    let is_child = doc! { "$expr": { "$eq": [format!("${}", settings.parent), "$$id"] } };
    let ids = [
        doc! { "$match": is_child },
        doc! { "$project": { "_id": 0, "i": format!("${}", settings.child_id) } },
    ];
    doc! { "$lookup": { "from": children, "let": id, "pipeline": ids.to_vec(), "as": into } }
}

/// Whether all of some ids, which are each another one, are among others.
fn has_all(ids: &str, others: &str) -> Document {
    let all = doc! { "$and": [
        { "$not": [{ "$in": [null, ids] }] },
        { "$eq": [{ "$size": { "$setUnion": [ids, []] } }, { "$size": ids }] },
        { "$setIsSubset": [ids, others] },
    ] };
    doc! { "$cond": [{ "$isArray": ids }, all, false] }
}

/// The parents that children name and that do not exist, with the number of those children: of all, or one.
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
        // The server groups in no order.
        doc! { "$sort": { "_id": 1 } },
    ]);
    stages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_writes_only_what_has_not_changed() {
        let stages = rebuild_all(&Settings::example(), "product", "review", Rebuilt::Wrong);
        let merge = stages.last().unwrap().get_document("$merge").unwrap();
        let next = doc! { "$add": [
            { "$cond": [{ "$in": [{ "$type": "$reviews_version" }, ["int", "long"]] }, "$reviews_version", 0_i64] },
            1_i64,
        ] };
        let is_same = doc! { "$and": [
            { "$eq": [{ "$ifNull": ["$reviews_version", null] }, "$$new.version"] },
            { "$or": [
                { "$eq": ["$$new.ids", null] },
                { "$eq": ["$$new.ids", embedded_ids(&Settings::example(), "$reviews")] },
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
}
