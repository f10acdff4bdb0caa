//! The aggregation over arrays, with their overflow documents. It writes nothing.
//!
//! # Design
//!
//! ## Why are only outliers grouped by `_id`?
//!
//! All other documents go straight to the group of their length. So the server keeps a group for each outlier, and not
//! for each document.

use futures::TryStreamExt;
use mongo_patterns_core::migration::number;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};

use super::analysis::{Analysis, ListLength};
use super::distribution::{Distribution, stored};
use crate::failure::Failure;

/// The fields of documents with overflow documents.
pub(crate) struct Fields<'a> {
    pub(crate) array: &'a str,
    /// The flag of a document with overflow documents.
    pub(crate) flag: &'a str,
    /// The array and the parent of an overflow document.
    pub(crate) extras: String,
    pub(crate) parent: &'a str,
}

impl<'a> Fields<'a> {
    /// Returns the default fields beside an array.
    pub(crate) fn of(array: &'a str) -> Self {
        Self {
            array,
            flag: "has_extras",
            extras: format!("{array}_extra"),
            parent: "parent_id",
        }
    }
}

/// The length of an array field that is not an array.
const NOT_AN_ARRAY: i64 = -1;

/// The batch size. A row has about 100 bytes, so nearly always the first reply has all rows.
const ROWS: u32 = 1_000_000;

/// The bytes of `{ a: [] }`: what a document and its array have beside the elements.
const EMPTY_BYTES: i32 = 13;

/// Reads the lengths of the lists of a collection, or of a random sample. Overflow documents count if their document has the
/// flag, also in the manual's form. Works for documents that have no overflow documents yet.
pub(super) async fn distribution(
    collection: &Collection<Document>,
    overflow: &str,
    fields: &Fields<'_>,
    sample: Option<u32>,
) -> Result<Distribution, Failure> {
    let pipeline = match sample {
        None => all(fields, overflow),
        Some(documents) => sampled(fields, overflow, documents),
    };
    let aggregate = collection.aggregate(pipeline).allow_disk_use(true).batch_size(ROWS);
    let mut rows = aggregate.await.map_err(Failure::on(collection.namespace()))?;
    let (mut analysis, mut not_arrays) = (Analysis::default(), 0);
    while let Some(row) = rows.try_next().await.map_err(Failure::on(collection.namespace()))? {
        let documents = number(&row, "documents");
        if is_not_an_array(&row) {
            not_arrays += documents;
            continue;
        }
        let length = number(&row, "_id");
        analysis.documents += documents;
        analysis.elements += length * documents;
        analysis.bytes += number(&row, "bytes");
        analysis.element_bytes += number(&row, "element_bytes");
        analysis.lengths.push(ListLength::new(length, documents));
    }
    Ok(Distribution {
        namespace: collection.namespace().to_string(),
        left_out: (not_arrays, "have a value that is not an array"),
        item_bytes: analysis.bytes_per_element(),
        sample,
        stored: stored(collection).await?,
        threshold: None,
        analysis,
    })
}

fn is_not_an_array(row: &Document) -> bool {
    match row.get("_id") {
        Some(Bson::Int32(length)) => i64::from(*length) == NOT_AN_ARRAY,
        Some(Bson::Int64(length)) => *length == NOT_AN_ARRAY,
        _ => false,
    }
}

fn all(fields: &Fields<'_>, overflow: &str) -> Vec<Document> {
    let extras = fields.extras.as_str();
    let overflow_rows = doc! { "$project": {
        "_id": 0,
        "parent": format!("${}", fields.parent),
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
        doc! { "$project": main_row(fields) },
        doc! { "$unionWith": { "coll": overflow, "pipeline": [overflow_rows] } },
        doc! { "$group": {
            "_id": group,
            "documents": { "$sum": { "$cond": ["$extras", 0, 1] } },
            "length": { "$sum": "$length" },
            "bytes": { "$sum": "$bytes" },
            "element_bytes": { "$sum": "$element_bytes" },
        } },
        // Drops overflow documents without a flagged main document.
        doc! { "$match": { "documents": { "$gt": 0 } } },
        doc! { "$set": { "length": { "$ifNull": ["$_id.length", "$length"] } } },
    ];
    stages.extend(by_length("$documents".into()));
    stages
}

fn sampled(fields: &Fields<'_>, overflow: &str, documents: u32) -> Vec<Document> {
    let extras = fields.extras.as_str();
    let overflow_rows = [
        doc! { "$match": { "$expr": { "$eq": [format!("${}", fields.parent), "$$id"] } } },
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
        doc! { "$project": main_row(fields) },
        doc! { "$lookup": { "from": overflow, "let": { "id": "$_id" }, "pipeline": overflow_rows.to_vec(), "as": "extras" } },
        doc! { "$set": { "length": with_extras("length"), "element_bytes": with_extras("element_bytes") } },
    ];
    stages.extend(by_length(1.into()));
    stages
}

/// Projects what counts of a main document. A missing array is an empty one.
fn main_row(fields: &Fields<'_>) -> Document {
    let array = fields.array;
    let stored = mongo_patterns_core::array::stored(array);
    doc! {
        "flagged": { "$eq": [format!("${}", fields.flag), true] },
        "length": { "$cond": [{ "$isArray": &stored }, { "$size": &stored }, NOT_AN_ARRAY] },
        "bytes": { "$bsonSize": "$$ROOT" },
        "element_bytes": element_bytes(array),
    }
}

/// Returns the number of elements in a field, as an expression; 0 where it is not an array.
pub(crate) fn size_of(field: &str) -> Document {
    let path = format!("${field}");
    doc! { "$cond": [{ "$isArray": &path }, { "$size": &path }, 0] }
}

/// Returns the bytes of the elements of a field, each with its type and its index, as an expression.
pub(super) fn element_bytes(field: &str) -> Document {
    let path = format!("${field}");
    let bytes = doc! { "$subtract": [{ "$bsonSize": { "a": &path } }, EMPTY_BYTES] };
    doc! { "$cond": [{ "$isArray": [&path] }, bytes, 0] }
}

/// Returns one row for each length, in order.
fn by_length(documents: Bson) -> [Document; 2] {
    [
        doc! { "$group": {
            "_id": "$length",
            "documents": { "$sum": documents },
            "bytes": { "$sum": "$bytes" },
            "element_bytes": { "$sum": "$element_bytes" },
        } },
        doc! { "$sort": { "_id": 1 } },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Fields<'static> {
        Fields {
            array: "customers_purchased",
            flag: "has_extras",
            extras: "customers_purchased_extra".to_owned(),
            parent: "book_id",
        }
    }

    fn stages(pipeline: &[Document]) -> Vec<&str> {
        let names = pipeline.iter().filter_map(|stage| stage.keys().next());
        names.map(String::as_str).collect()
    }

    #[test]
    fn it_reads_overflow_documents_once_and_groups_only_outliers_by_id() {
        let pipeline = all(&example(), "extra_sales");
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
        let pipeline = sampled(&example(), "extra_sales", 1000);
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
