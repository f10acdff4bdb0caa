//! The aggregations over the references of a field, as pure functions.

use mongodb::bson::{Bson, Document, doc};

/// A field with references, or with ids of sources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    /// The field with ids of sources, if it is another one.
    pub(super) ids: Option<&'a str>,
    pub(super) is_array: bool,
    pub(super) is_snapshot: bool,
    /// The field of the version.
    pub(super) version: &'a str,
    pub(super) sources: &'a str,
}

/// The sources by their number of references. The rows with `other: true` count values that are not references.
pub(super) fn by_references(field: &Field<'_>, sample: Option<u32>) -> Vec<Document> {
    let mut stages = references(field, sample);
    stages.extend([
        doc! { "$group": {
            "_id": { "i": "$i", "v": "$v", "k": "$k", "x": "$x" },
            "n": { "$sum": 1 },
            "b": { "$sum": "$b" },
            "d": { "$sum": "$d" },
        } },
        doc! { "$group": {
            "_id": "$_id.i",
            "n": { "$sum": "$n" },
            "d": { "$sum": "$d" },
            "r": { "$push": { "v": "$_id.v", "k": "$_id.k", "x": "$_id.x", "n": "$n", "b": "$b" } },
        } },
        doc! { "$lookup": {
            "from": field.sources,
            "let": { "i": "$_id" },
            "pipeline": [
                { "$match": { "$expr": { "$eq": ["$_id", "$$i"] } } },
                { "$project": { "v": format!("${}", field.version) } },
            ],
            "as": "s",
        } },
        doc! { "$project": {
            "n": 1,
            "d": 1,
            "r": 1,
            "f": { "$cond": [{ "$eq": ["$s", []] }, 0, 1] },
            "v": { "$ifNull": [{ "$arrayElemAt": ["$s.v", 0] }, 0] },
        } },
    ]);
    let number = |condition: Document, of: &str| {
        let chosen = doc! { "$cond": [condition, of, 0] };
        doc! { "$sum": { "$map": { "input": "$r", "as": "r", "in": chosen } } }
    };
    let is_copy = doc! { "$eq": ["$$r.k", COPY] };
    let is_found = doc! { "$eq": ["$f", 1] };
    // A document without an `_id` that no source has is a reference of another form, such as a DBRef.
    let only_documents = doc! { "$setIsSubset": ["$r.k", [DOCUMENT]] };
    let is_other = doc! { "$or": [
        { "$eq": ["$_id", null] },
        { "$and": [{ "$eq": ["$f", 0] }, only_documents] },
    ] };
    let stale = match field.is_snapshot {
        true => doc! { "$literal": 0 },
        false => number(
            doc! { "$and": [&is_copy, &is_found, { "$lt": ["$$r.v", "$v"] }] },
            "$$r.n",
        ),
    };
    stages.extend([
        doc! { "$project": {
            "n": 1,
            "d": 1,
            "f": 1,
            "copies": number(is_copy, "$$r.n"),
            "b": { "$sum": "$r.b" },
            "stale": stale,
            "dangling": number(doc! { "$and": [{ "$eq": ["$f", 0] }, { "$not": ["$$r.x"] }] }, "$$r.n"),
            "updates": { "$cond": [is_found, { "$multiply": ["$n", "$v"] }, 0] },
            "other": is_other,
        } },
        doc! { "$group": {
            "_id": { "n": "$n", "other": "$other" },
            "sources": { "$sum": 1 },
            "found": { "$sum": "$f" },
            "copies": { "$sum": "$copies" },
            "bytes": { "$sum": "$b" },
            "document_bytes": { "$sum": "$d" },
            "stale": { "$sum": "$stale" },
            "dangling": { "$sum": "$dangling" },
            "updates": { "$sum": "$updates" },
            "source": { "$min": "$_id" },
        } },
        doc! { "$sort": { "_id.n": 1 } },
    ]);
    stages
}

/// The sources of a sample of documents by their number of references of a kind in all documents, which an index on the
/// path of their ids counts.
pub(super) fn sampled(field: &Field<'_>, collection: &str, (kind, path): (&str, &str), sample: u32) -> Vec<Document> {
    let kinds: &[&str] = match kind {
        COPY => &[COPY],
        _ => &[ID, DOCUMENT],
    };
    let mut stages = references(field, Some(sample));
    stages.extend([
        doc! { "$match": { "k": { "$in": kinds } } },
        doc! { "$group": { "_id": "$i", "hits": { "$sum": 1 } } },
        doc! { "$lookup": { "from": collection, "localField": "_id", "foreignField": path, "as": "g" } },
        doc! { "$unwind": "$g" },
        doc! { "$group": { "_id": "$_id", "hits": { "$first": "$hits" }, "n": { "$sum": 1 } } },
        doc! { "$group": { "_id": "$n", "hits": { "$sum": "$hits" }, "source": { "$min": "$_id" } } },
        doc! { "$sort": { "_id": 1 } },
    ]);
    stages
}

/// The kinds of references: with a copy, an id alone, and one that is a document without an `_id`.
pub(super) const COPY: &str = "copy";
pub(super) const ID: &str = "id";
const DOCUMENT: &str = "document";

/// One row for each reference: `i` its id, or null for another value, `k` its kind, `v` its version, `x` whether its source
/// was deleted, and the bytes of the copy and of the document.
fn references(field: &Field<'_>, sample: Option<u32>) -> Vec<Document> {
    let path = |name: &str| format!("${name}");
    let present = |name: &str| doc! { name: { "$ne": null } };
    let mut is_present = vec![present(field.name)];
    is_present.extend(field.ids.map(present));
    let value: Bson = match field.ids {
        Some(ids) => doc! { "$ifNull": [path(field.name), path(ids)] }.into(),
        None => path(field.name).into(),
    };
    // An array in an array is not an id.
    let values = match field.is_array {
        true => doc! { "$cond": [{ "$isArray": [&value] }, &value, [[&value]]] }.into(),
        false => Bson::Array(vec![value]),
    };
    let is_id = |value: &str| {
        let others = ["missing", "null", "array", "undefined", "regex"];
        doc! { "$not": [{ "$in": [{ "$type": value }, others.as_slice()] }] }
    };
    let is_reference = doc! { "$and": [{ "$eq": [{ "$type": "$r" }, "object"] }, is_id("$r._id")] };
    let version = format!("$r.{}", field.version);
    let is_deleted = doc! { "$eq": ["$r.deleted", true] };
    let has_version = doc! { "$ne": [{ "$type": &version }, "missing"] };
    let is_copy = doc! { "$and": [&is_reference, { "$or": [has_version, &is_deleted] }] };
    let has_no_id = doc! { "$eq": [{ "$type": "$r._id" }, "missing"] };
    let is_other_document = doc! { "$and": [{ "$eq": [{ "$type": "$r" }, "object"] }, { "$not": [has_no_id] }] };
    let is_bare = doc! { "$and": [is_id("$r"), { "$not": [is_other_document] }] };
    // A migration takes a reference without a version for an id, and a document without an `_id`.
    let kind = doc! { "$switch": {
        "branches": [
            { "case": is_copy, "then": COPY },
            { "case": &is_reference, "then": ID },
            { "case": &is_bare, "then": { "$cond": [{ "$eq": [{ "$type": "$r" }, "object"] }, DOCUMENT, ID] } },
        ],
        "default": "other",
    } };
    let id = doc! { "$switch": {
        "branches": [{ "case": is_reference, "then": "$r._id" }, { "case": is_bare, "then": "$r" }],
        "default": null,
    } };
    let is_kind_copy = doc! { "$eq": ["$k", COPY] };
    let mut stages = Vec::new();
    stages.extend(sample.map(|documents| doc! { "$sample": { "size": i64::from(documents) } }));
    stages.extend([
        doc! { "$match": { "$or": is_present } },
        doc! { "$project": { "_id": 0, "d": { "$bsonSize": "$$ROOT" }, "r": values } },
        doc! { "$unwind": "$r" },
        doc! { "$addFields": { "k": kind } },
        doc! { "$project": {
            "k": 1,
            "d": 1,
            "i": id,
            "v": { "$cond": [&is_kind_copy, version, null] },
            "x": { "$and": [&is_kind_copy, is_deleted] },
            "b": { "$cond": [&is_kind_copy, { "$bsonSize": "$r" }, 0] },
        } },
    ]);
    stages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_another_field_count_where_there_is_no_reference() {
        let mut field = Field {
            name: "customer",
            ids: Some("customerId"),
            is_array: false,
            is_snapshot: false,
            version: "v",
            sources: "customers",
        };
        let stages = by_references(&field, Some(10));
        assert_eq!(stages[0], doc! { "$sample": { "size": 10_i64 } });
        assert_eq!(
            stages[1],
            doc! { "$match": { "$or": [{ "customer": { "$ne": null } }, { "customerId": { "$ne": null } }] } }
        );
        let value = stages[2].get_document("$project").unwrap().get("r").unwrap();
        let either = doc! { "$ifNull": ["$customer", "$customerId"] };
        assert_eq!(value, &vec![either].into());
        field.ids = None;
        let stages = by_references(&field, None);
        assert_eq!(
            stages[0],
            doc! { "$match": { "$or": [{ "customer": { "$ne": null } }] } }
        );
        let value = |stages: &[Document]| stages[1].get_document("$project").unwrap().get("r").unwrap().clone();
        assert_eq!(value(&stages), vec!["$customer"].into());
        field.is_array = true;
        let arrays = doc! { "$cond": [{ "$isArray": ["$customer"] }, "$customer", [["$customer"]]] };
        assert_eq!(value(&by_references(&field, None)), arrays.into());
    }
}
