//! The aggregation of an analysis.
//!
//! # Design
//!
//! ## Why are only outliers grouped by `_id`?
//!
//! All other documents go straight to the group of their length. So the server keeps a group for each outlier, and not
//! for each document.

use super::elements::{is_flagged, size_of};
use crate::prelude::*;

/// The length of an array field that is not an array.
pub(crate) const NOT_AN_ARRAY: i64 = -1;

/// The bytes of `{ a: [] }`: what a document and its array have beside the elements.
const EMPTY_BYTES: i32 = 13;

/// Returns one row for each length, in order. Of all documents, or of a random sample.
pub(crate) fn analysis(settings: &Settings, overflow: &str, sample: Option<u32>) -> Vec<Document> {
    match sample {
        None => all(settings, overflow),
        Some(documents) => sampled(settings, overflow, documents),
    }
}

fn all(settings: &Settings, overflow: &str) -> Vec<Document> {
    let extras = settings.extras.as_str();
    let overflow_rows = doc! { "$project": {
        "_id": 0,
        "parent": format!("${}", settings.parent),
        "length": size_of(extras),
        "element_bytes": element_bytes(extras),
        "extras": { "$literal": true },
    } };
    let is_outlier = doc! { "$and": ["$flagged", { "$gte": ["$length", 0] }] };
    let group = doc! { "$switch": {
        "branches": [
            { "case": "$extras", "then": { "outlier": "$parent" } },
            { "case": is_outlier, "then": { "outlier": "$_id" } },
        ],
        "default": { "length": "$length" },
    } };
    let mut stages = vec![
        doc! { "$project": main_row(settings) },
        doc! { "$unionWith": { "coll": overflow, "pipeline": [overflow_rows] } },
        doc! { "$group": {
            "_id": group,
            "documents": { "$sum": { "$cond": ["$extras", 0, 1] } },
            "length": { "$sum": "$length" },
            "bytes": { "$sum": "$bytes" },
            "element_bytes": { "$sum": "$element_bytes" },
            "id": { "$min": "$_id" },
        } },
        // Drops overflow documents without a flagged main document.
        doc! { "$match": { "documents": { "$gt": 0 } } },
        doc! { "$set": { "length": { "$ifNull": ["$_id.length", "$length"] } } },
    ];
    stages.extend(by_length("$documents".into(), "$id"));
    stages
}

fn sampled(settings: &Settings, overflow: &str, documents: u32) -> Vec<Document> {
    let extras = settings.extras.as_str();
    let overflow_rows = [
        doc! { "$match": { "$expr": { "$eq": [format!("${}", settings.parent), "$$id"] } } },
        doc! { "$group": {
            "_id": null,
            "length": { "$sum": size_of(extras) },
            "element_bytes": { "$sum": element_bytes(extras) },
        } },
    ];
    let is_outlier = doc! { "$and": ["$flagged", { "$gte": ["$length", 0] }] };
    let with_extras = |field: &str| {
        let extras = doc! { "$cond": [&is_outlier, { "$sum": format!("$extras.{field}") }, 0] };
        doc! { "$add": [format!("${field}"), extras] }
    };
    let mut stages = vec![
        doc! { "$sample": { "size": i64::from(documents) } },
        doc! { "$project": main_row(settings) },
        doc! { "$lookup": { "from": overflow, "let": { "id": "$_id" }, "pipeline": overflow_rows.to_vec(), "as": "extras" } },
        doc! { "$set": { "length": with_extras("length"), "element_bytes": with_extras("element_bytes") } },
    ];
    stages.extend(by_length(1.into(), "$_id"));
    stages
}

/// Projects what counts of a main document. A missing array is an empty one.
fn main_row(settings: &Settings) -> Document {
    let array = settings.array.as_str();
    let stored = mongo_patterns_core::array::stored(array);
    doc! {
        "flagged": is_flagged(settings),
        "length": { "$cond": [{ "$isArray": &stored }, { "$size": &stored }, NOT_AN_ARRAY] },
        "bytes": { "$bsonSize": "$$ROOT" },
        "element_bytes": element_bytes(array),
    }
}

/// Returns the bytes of the elements of a field, each with its type and its index, as an expression.
fn element_bytes(field: &str) -> Document {
    let path = format!("${field}");
    let bytes = doc! { "$subtract": [{ "$bsonSize": { "a": &path } }, EMPTY_BYTES] };
    doc! { "$cond": [{ "$isArray": [&path] }, bytes, 0] }
}

fn by_length(documents: Bson, id: &str) -> [Document; 2] {
    [
        doc! { "$group": {
            "_id": "$length",
            "documents": { "$sum": documents },
            "bytes": { "$sum": "$bytes" },
            "element_bytes": { "$sum": "$element_bytes" },
            "id": { "$min": id },
        } },
        doc! { "$sort": { "_id": 1 } },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(pipeline: &[Document]) -> Vec<&str> {
        let names = pipeline.iter().filter_map(|stage| stage.keys().next());
        names.map(String::as_str).collect()
    }

    #[test]
    fn it_reads_overflow_documents_once_and_groups_only_outliers_by_id() {
        let pipeline = all(&Settings::example(), "extra_sales");
        assert_eq!(
            stages(&pipeline),
            ["$project", "$unionWith", "$group", "$match", "$set", "$group", "$sort"]
        );
        let union = doc! { "$unionWith": { "coll": "extra_sales", "pipeline": [{ "$project": {
            "_id": 0,
            "parent": "$book_id",
            "length": { "$cond": [
                { "$isArray": "$customers_purchased_extra" },
                { "$size": "$customers_purchased_extra" },
                0,
            ] },
            "element_bytes": { "$cond": [
                { "$isArray": ["$customers_purchased_extra"] },
                { "$subtract": [{ "$bsonSize": { "a": "$customers_purchased_extra" } }, 13] },
                0,
            ] },
            "extras": { "$literal": true },
        } }] } };
        assert_eq!(pipeline[1], union);
        let group = pipeline[2].get_document("$group").expect("a stage");
        let outlier_or_length = doc! { "$switch": {
            "branches": [
                { "case": "$extras", "then": { "outlier": "$parent" } },
                { "case": { "$and": ["$flagged", { "$gte": ["$length", 0] }] }, "then": { "outlier": "$_id" } },
            ],
            "default": { "length": "$length" },
        } };
        assert_eq!(group.get_document("_id").ok(), Some(&outlier_or_length));
    }

    #[test]
    fn a_sample_looks_up_the_overflow_documents() {
        let pipeline = sampled(&Settings::example(), "extra_sales", 1000);
        assert_eq!(
            stages(&pipeline),
            ["$sample", "$project", "$lookup", "$set", "$group", "$sort"]
        );
        assert_eq!(pipeline[0], doc! { "$sample": { "size": 1000_i64 } });
        let lookup = pipeline[2].get_document("$lookup").expect("a stage");
        let matched = doc! { "$match": { "$expr": { "$eq": ["$book_id", "$$id"] } } };
        let first = lookup
            .get_array("pipeline")
            .ok()
            .and_then(|stages| stages[0].as_document());
        assert_eq!(first, Some(&matched));
    }
}
