//! Aggregations over the documents of a collection, grouped by a field.

use futures::TryStreamExt;
use mongo_patterns_core::FieldName;
use mongo_patterns_core::index::list_indexes;
use mongo_patterns_core::migration::number;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::Collation;

use super::analysis::{Analysis, ListLength, ratio};
use super::distribution::{Distribution, stored};
use super::lists::{element_bytes, size_of};
use crate::failure::Failure;

/// The size of a document without fields, plus the types and terminators of two names of one letter, in bytes.
const EMPTY: f64 = 5.0;

pub(super) async fn distribution(
    collection: &Collection<Document>,
    field: &FieldName,
    array: Option<&str>,
    sample: Option<u32>,
) -> Result<Distribution, Failure> {
    let stored = stored(collection).await?;
    let pipeline = match sample {
        None => all(field, array),
        Some(documents) => {
            check_index(collection, field.as_str()).await?;
            sampled(collection.name(), field, documents)
        }
    };
    let simple = Collation::builder().locale("simple").build();
    let mut rows = collection
        .aggregate(pipeline)
        .allow_disk_use(true)
        .collation(simple)
        .await
        .map_err(Failure::on(collection.namespace()))?;
    let mut analysis = Analysis::default();
    let (mut own_bytes, mut seen, mut seen_documents) = (0, 0, 0);
    while let Some(row) = rows.try_next().await.map_err(Failure::on(collection.namespace()))? {
        let (length, hits) = (number(&row, "_id"), number(&row, "n"));
        // A sample contains a group as often as it contains its documents.
        let groups = match sample {
            None => hits,
            Some(documents) => scaled(hits, stored.documents, u64::from(documents) * length),
        };
        seen_documents += number(&row, "documents");
        if length == 0 || groups == 0 {
            continue;
        }
        analysis.documents += groups;
        analysis.elements += groups * length;
        analysis.bytes += number(&row, "bytes");
        own_bytes += number(&row, "own");
        seen += number(&row, "items");
        analysis.lengths.push(ListLength::new(length, groups));
    }
    // The bytes that an item has only in a flat collection: its `_id` and the group's field.
    let names = ratio(field.as_str().len() as u64 + 1, 1);
    let own = match array {
        None => ratio(own_bytes, seen) - EMPTY + names,
        Some(_) => 0.0,
    };
    let item_bytes = (ratio(analysis.bytes, seen) - own.max(0.0)).max(0.0);
    analysis.element_bytes = analysis.bytes;
    Ok(Distribution {
        namespace: collection.namespace().to_string(),
        analysis,
        sample,
        left_out: match sample {
            None => (
                stored.documents.saturating_sub(seen_documents),
                "have no such field, or null in it",
            ),
            Some(_) => (0, ""),
        },
        item_bytes,
        stored,
        threshold: None,
    })
}

pub(super) fn scaled(hits: u64, documents: u64, of: u64) -> u64 {
    let scaled = u128::from(hits) * u128::from(documents) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
}

/// Returns the stages that count groups by their size.
fn all(field: &FieldName, array: Option<&str>) -> Vec<Document> {
    let mut group = sums();
    group.insert("_id", "$k");
    let mut row = row(field, array);
    row.insert("k", format!("${field}"));
    vec![
        with_field(field),
        doc! { "$project": row },
        doc! { "$group": group },
        doc! { "$group": {
            "_id": "$items",
            "n": { "$sum": 1 },
            "documents": { "$sum": "$documents" },
            "items": { "$sum": "$items" },
            "bytes": { "$sum": "$bytes" },
            "own": { "$sum": "$own" },
        } },
        doc! { "$sort": { "_id": 1 } },
    ]
}

/// Returns the stages that sample documents and count their groups by size.
fn sampled(collection: &str, field: &FieldName, documents: u32) -> Vec<Document> {
    let path = format!("${field}");
    let mut group = sums();
    group.insert("_id", Bson::Null);
    let members = vec![
        doc! { "$match": { "$expr": { "$eq": [&path, "$$k"] } } },
        doc! { "$project": row(field, None) },
        doc! { "$group": group },
    ];
    vec![
        doc! { "$sample": { "size": i64::from(documents) } },
        with_field(field),
        doc! { "$group": { "_id": path, "n": { "$sum": 1 } } },
        doc! { "$lookup": { "from": collection, "let": { "k": "$_id" }, "pipeline": members, "as": "g" } },
        doc! { "$unwind": "$g" },
        doc! { "$group": {
            "_id": "$g.items",
            "n": { "$sum": "$n" },
            "items": { "$sum": "$g.items" },
            "bytes": { "$sum": "$g.bytes" },
            "own": { "$sum": "$g.own" },
        } },
        doc! { "$sort": { "_id": 1 } },
    ]
}

/// Excludes documents without the field.
fn with_field(field: &FieldName) -> Document {
    doc! { "$match": { field.as_str(): { "$ne": null } } }
}

/// Returns what counts of a document: its bytes, those of its own fields, and the number of its items, which are those of an
/// array or itself.
fn row(field: &FieldName, array: Option<&str>) -> Document {
    match array {
        None => doc! { "b": { "$bsonSize": "$$ROOT" }, "o": own(field), "c": { "$literal": 1 } },
        Some(array) => doc! { "b": element_bytes(array), "c": size_of(array) },
    }
}

fn sums() -> Document {
    doc! { "documents": { "$sum": 1 }, "items": { "$sum": "$c" }, "bytes": { "$sum": "$b" }, "own": { "$sum": "$o" } }
}

/// The bytes of `_id` and the field, in a document with names of one letter.
fn own(field: &FieldName) -> Document {
    doc! { "$bsonSize": { "i": "$_id", "k": format!("${field}") } }
}

/// Without an index, the server would read the whole collection for each group.
pub(super) async fn check_index(collection: &Collection<Document>, field: &str) -> Result<(), Failure> {
    let indexes = list_indexes(collection).await?;
    let serves = |index: &Document| {
        let first = index.get_document("key").ok().and_then(|keys| keys.keys().next());
        first.is_some_and(|first| first == field) && !index.contains_key("partialFilterExpression")
    };
    if indexes.iter().any(serves) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--sample needs an index of {} that starts with `{field}`, to count the groups of the sample: create it, or omit --sample",
        collection.namespace()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_group_is_sampled_more_often_and_counts_once() {
        // 1000 documents, 100 of them sampled: 50 hits are 50 groups of 10 documents, or one group of 500.
        assert_eq!(scaled(50, 1000, 100 * 10), 50);
        assert_eq!(scaled(50, 1000, 100 * 500), 1);
    }

    #[test]
    fn documents_are_grouped_by_the_field_and_groups_by_size() {
        let field = FieldName::new("customerId").unwrap();
        let pipeline = all(&field, None);
        let group = pipeline[2].get_document("$group").unwrap();
        assert_eq!(group.get_str("_id").unwrap(), "$k");
        let row = pipeline[1].get_document("$project").unwrap();
        assert_eq!(row.get_str("k").unwrap(), "$customerId");
        assert_eq!(
            pipeline[3].get_document("$group").unwrap().get_str("_id").unwrap(),
            "$items"
        );
    }
}
