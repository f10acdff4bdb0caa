//! The documents that violate a unique index which does not exist.
//!
//! # Design
//!
//! ## Why is nothing else checked without the index?
//!
//! The other checks of a pattern read the documents of each parent or id, which without an index is a scan for each. The
//! index cannot be created before the duplicates are corrected, and then the other checks need it anyway.

use std::collections::VecDeque;

use futures::TryStreamExt;
use futures::future::BoxFuture;
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use mongodb::options::AggregateOptions;

use super::{IndexPlan, PlannedIndex};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::key::stored_integer;
use crate::send::{self, Rows};

type Raw = Collection<RawDocumentBuf>;

/// The most documents with the same values that are named.
const MOST: i32 = 100;

/// Documents that have the same values in the fields of a unique index.
#[doc(hidden)]
#[derive(Clone, PartialEq)]
pub struct Duplicates {
    /// The name of the index.
    pub index: String,
    /// The values, in the order of the fields of the index; null for a missing one.
    pub values: Vec<Bson>,
    /// The `_id`s of the documents, up to 100.
    pub ids: Vec<Bson>,
    /// The number of the documents.
    pub documents: u64,
}

crate::redacted_debug!(Duplicates, |duplicates| "index" = duplicates.index);

/// A search for the documents that violate the unique indexes which do not exist.
#[doc(hidden)]
pub struct FindDuplicates {
    /// The missing indexes that were not searched yet.
    indexes: VecDeque<(Raw, PlannedIndex)>,
    rows: Option<Rows>,
    /// The name of a missing index.
    missing: String,
}

crate::redacted_debug!(FindDuplicates, |search| "missing" = search.missing);

impl FindDuplicates {
    /// Begins a search of collections. `None` if all of their indexes exist. One round trip for each collection.
    pub async fn of(plans: Vec<IndexPlan>) -> Result<Option<Self>> {
        let mut missing = Vec::new();
        for plan in plans {
            let indexes = plan.missing().await?.into_iter();
            missing.extend(indexes.map(|index| (plan.collection.clone(), index)));
        }
        let Some((_, first)) = missing.first() else {
            return Ok(None);
        };
        let first = first.name.clone();
        missing.retain(|(_, index)| is_searched(index));
        Ok(Some(Self {
            indexes: missing.into(),
            rows: None,
            missing: first,
        }))
    }

    /// Returns the next documents with the same values, which a second read has confirmed, and
    /// [`IndexMissing`](ErrorKind::IndexMissing) at the end. One round trip for each index, in which the server groups the
    /// collection, and one for each result.
    pub fn next_found(&mut self) -> BoxFuture<'_, Result<Duplicates>> {
        Box::pin(async move { self.search().await?.ok_or_else(|| self.not_searched()) })
    }

    /// Returns whether documents violate one of these indexes of a collection, which do not exist.
    pub(super) async fn are_in(collection: &Raw, indexes: Vec<&PlannedIndex>) -> Result<bool> {
        let unique = indexes.into_iter().filter(|index| is_searched(index));
        let indexes = unique.map(|index| (collection.clone(), index.clone())).collect();
        let (rows, missing) = (None, String::new());
        let mut search = Self { indexes, rows, missing };
        Ok(search.search().await?.is_some())
    }

    async fn search(&mut self) -> Result<Option<Duplicates>> {
        while let Some((collection, index)) = self.indexes.front() {
            let rows = match &mut self.rows {
                Some(rows) => rows,
                None => {
                    let rows = aggregate(collection, pipeline(&index.keys, None)).await?;
                    self.rows.insert(rows)
                }
            };
            let Some(row) = rows.try_next().await? else {
                self.indexes.pop_front();
                self.rows = None;
                continue;
            };
            let found = Duplicates::of_row(index, &row);
            let mut again = aggregate(collection, pipeline(&index.keys, Some(&found.ids))).await?;
            // Others write concurrently, and the scan can have read a document before its deletion, and its successor.
            if again.try_next().await?.is_some() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn not_searched(&self) -> Error {
        Error::new(
            ErrorKind::IndexMissing,
            format!(
                "the index `{}` does not exist, so that only documents that a unique index refuses were looked for: correct those that were found, call ensure_indexes(), and call this again",
                self.missing
            ),
        )
        .with_remedy(Remedy::EnsureIndexes)
    }
}

/// Returns whether the documents that violate an index are searched for. The patterns check partial indexes in other ways.
fn is_searched(index: &PlannedIndex) -> bool {
    index.unique && index.partial_filter.is_none()
}

impl Duplicates {
    fn of_row(index: &PlannedIndex, row: &RawDocument) -> Self {
        let value = |field: &str| row.get(field).ok().flatten();
        let owned = |value: RawBsonRef<'_>| Bson::try_from(value).unwrap_or(Bson::Null);
        let group = value("_id").and_then(RawBsonRef::as_document);
        let of_group = |at: usize| group.and_then(|group| group.get(name(at)).ok().flatten());
        let ids = value("ids").and_then(RawBsonRef::as_array);
        let documents = value("documents").and_then(stored_integer);
        Self {
            index: index.name.clone(),
            values: (0..index.keys.len())
                .map(|at| of_group(at).map_or(Bson::Null, owned))
                .collect(),
            ids: ids.into_iter().flatten().flatten().map(owned).collect(),
            documents: documents
                .and_then(|documents| u64::try_from(documents).ok())
                .unwrap_or(0),
        }
    }
}

async fn aggregate(collection: &Raw, stages: Vec<Document>) -> Result<Rows> {
    let options = AggregateOptions::builder().allow_disk_use(true).build();
    Ok(send::aggregate_rows(collection, stages, send::latest(options)).await?)
}

/// Returns the name of a value in the pipeline, which may not have the characters of a field.
fn name(at: usize) -> String {
    format!("k{at}")
}

/// Groups documents as a unique index does: by their values, a missing one as null, and an array by each of its elements.
fn pipeline(keys: &Document, among: Option<&[Bson]>) -> Vec<Document> {
    let fields = || keys.keys().enumerate();
    let among = among.map(|ids| doc! { "$match": { "_id": { "$in": ids } } });
    let mut stages: Vec<Document> = among.into_iter().collect();
    let values = fields().map(|(at, field)| (name(at), doc! { "$ifNull": [format!("${field}"), null] }.into()));
    stages.push(doc! { "$project": Document::from_iter(values) });
    // An empty array leaves no value, which is not null.
    stages.extend(fields().map(|(at, _)| {
        doc! { "$unwind": { "path": format!("${}", name(at)), "preserveNullAndEmptyArrays": true } }
    }));
    let values = fields().map(|(at, _)| (name(at), format!("${}", name(at)).into()));
    let first = doc! { "$firstN": { "input": "$_id", "n": MOST } };
    stages.extend([
        doc! { "$group": { "_id": Document::from_iter(values), "ids": first, "documents": { "$sum": 1_i64 } } },
        // Each once: an array can have an element twice.
        doc! { "$set": { "ids": { "$sortArray": { "input": { "$setUnion": ["$ids", []] }, "sortBy": 1 } } } },
        doc! { "$match": { "ids.1": { "$exists": true } } },
        // The server groups in no particular order.
        doc! { "$sort": { "_id": 1 } },
    ]);
    stages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_grouped_by_the_fields_of_the_index() {
        let stages = pipeline(&doc! { "product_id": 1, "review_id": 1 }, None);
        assert_eq!(
            stages[0],
            doc! { "$project": { "k0": { "$ifNull": ["$product_id", null] }, "k1": { "$ifNull": ["$review_id", null] } } }
        );
        let group = stages[3].get_document("$group").unwrap();
        assert_eq!(group.get_document("_id").unwrap(), &doc! { "k0": "$k0", "k1": "$k1" });
        let again = pipeline(&doc! { "product_id": 1 }, Some(&[Bson::Int32(5)]));
        assert_eq!(again[0], doc! { "$match": { "_id": { "$in": [5] } } });
    }

    #[test]
    fn a_row_has_the_values_and_the_documents() {
        let index = PlannedIndex::new("a_1_b_1", doc! { "a": 1, "b": 1 }).unique();
        let row = mongodb::bson::rawdoc! { "_id": { "k0": 1 }, "ids": [5, "x"], "documents": 3_i64 };
        let found = Duplicates::of_row(&index, &row);
        assert_eq!(found.values, [Bson::Int32(1), Bson::Null]);
        assert_eq!((found.ids, found.documents), (vec![5.into(), "x".into()], 3));
    }
}
