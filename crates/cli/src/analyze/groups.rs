//! The documents of a collection in groups of an equal field: the aggregations.

use futures::TryStreamExt;
use mongo_patterns_core::FieldName;
use mongo_patterns_core::index::list_indexes;
use mongo_patterns_outlier::{Analysis, ListLength};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::Collation;

use super::{Spread, number, ratio, stored};
use crate::failure::Failure;

/// The bytes of a document without fields, and of the type and the end of each of two names of one letter.
const EMPTY: f64 = 5.0;

pub(super) async fn spread(
    collection: &Collection<Document>,
    field: &FieldName,
    sample: Option<u32>,
) -> Result<Spread, Failure> {
    let stored = stored(collection).await?;
    let pipeline = match sample {
        None => all(field),
        Some(documents) => {
            check_index(collection, field).await?;
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
    let (mut own_bytes, mut seen) = (0, 0);
    while let Some(row) = rows.try_next().await.map_err(Failure::on(collection.namespace()))? {
        let (length, hits) = (number(&row, "_id"), number(&row, "n"));
        // A group of a sample is met as often as it has documents.
        let groups = match sample {
            None => hits,
            Some(documents) => scaled(hits, stored.documents, u64::from(documents) * length),
        };
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
    // What an item has in a flat collection alone: its `_id` and the field of its group.
    let names = ratio(field.as_str().len() as u64 + 1, 1);
    let own = ratio(own_bytes, seen) - EMPTY + names;
    let item_bytes = (ratio(analysis.bytes, seen) - own.max(0.0)).max(0.0);
    analysis.element_bytes = analysis.bytes;
    Ok(Spread {
        namespace: collection.namespace().to_string(),
        analysis,
        sample,
        left_out: match sample {
            None => (
                stored.documents.saturating_sub(seen),
                "have no such field, or null in it",
            ),
            Some(_) => (0, ""),
        },
        item_bytes,
        stored,
    })
}

fn scaled(hits: u64, documents: u64, of: u64) -> u64 {
    let scaled = u128::from(hits) * u128::from(documents) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
}

/// A row for each size of a group.
fn all(field: &FieldName) -> Vec<Document> {
    let mut group = sums();
    group.insert("_id", format!("${field}"));
    vec![
        has(field),
        doc! { "$project": { field.as_str(): 1, "b": { "$bsonSize": "$$ROOT" }, "o": own(field) } },
        doc! { "$group": group },
        doc! { "$group": {
            "_id": "$items",
            "n": { "$sum": 1 },
            "items": { "$sum": "$items" },
            "bytes": { "$sum": "$bytes" },
            "own": { "$sum": "$own" },
        } },
        doc! { "$sort": { "_id": 1 } },
    ]
}

/// The groups of some documents: how often a group of each size was met, and what it has.
fn sampled(collection: &str, field: &FieldName, documents: u32) -> Vec<Document> {
    let path = format!("${field}");
    let mut group = sums();
    group.insert("_id", Bson::Null);
    let members = vec![
        doc! { "$match": { "$expr": { "$eq": [&path, "$$k"] } } },
        doc! { "$project": { "b": { "$bsonSize": "$$ROOT" }, "o": own(field) } },
        doc! { "$group": group },
    ];
    vec![
        doc! { "$sample": { "size": i64::from(documents) } },
        has(field),
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

/// Documents without the field are no group.
fn has(field: &FieldName) -> Document {
    doc! { "$match": { field.as_str(): { "$ne": null } } }
}

fn sums() -> Document {
    doc! { "items": { "$sum": 1 }, "bytes": { "$sum": "$b" }, "own": { "$sum": "$o" } }
}

/// The bytes of `_id` and the field, in a document of names of one letter.
fn own(field: &FieldName) -> Document {
    doc! { "$bsonSize": { "i": "$_id", "k": format!("${field}") } }
}

/// Without one, the server would read the collection for each group.
async fn check_index(collection: &Collection<Document>, field: &FieldName) -> Result<(), Failure> {
    let indexes = list_indexes(collection).await?;
    let serves = |index: &Document| {
        let first = index.get_document("key").ok().and_then(|keys| keys.keys().next());
        first.is_some_and(|first| first == field.as_str()) && !index.contains_key("partialFilterExpression")
    };
    if indexes.iter().any(serves) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--sample needs an index of {} that starts with `{field}`, to count the groups of the sample: create it, or leave --sample out",
        collection.namespace()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_group_is_met_more_often_and_counts_as_one() {
        // 1000 documents, 100 of them sampled: 50 hits in groups of 10 are 50 groups, in one of 500 one.
        assert_eq!(scaled(50, 1000, 100 * 10), 50);
        assert_eq!(scaled(50, 1000, 100 * 500), 1);
    }

    #[test]
    fn groups_are_by_the_field_and_rows_by_size() {
        let field = FieldName::new("customerId").unwrap();
        let pipeline = all(&field);
        let group = pipeline[2].get_document("$group").unwrap();
        assert_eq!(group.get_str("_id").unwrap(), "$customerId");
        assert_eq!(
            pipeline[3].get_document("$group").unwrap().get_str("_id").unwrap(),
            "$items"
        );
    }
}
