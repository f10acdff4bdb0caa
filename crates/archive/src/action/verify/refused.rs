//! Documents that a unique index of the archive refuses.

use mongo_patterns_core::Result;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::by_id;
use mongo_patterns_core::index::list_indexes;
use mongo_patterns_core::migration::and;
use mongo_patterns_core::send::{self, next_rows};
use mongo_patterns_core::stored::{id_of, value};
use mongo_patterns_core::verify::Results;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::FindOptions;

use crate::finding::{Finding, Problem};
use crate::repository::Shared;

/// The documents that are looked for together.
pub(super) const BATCH: u32 = 1000;

/// A unique index of the archive.
struct UniqueIndex {
    fields: Vec<String>,
    is_sparse: bool,
    /// Matches the documents that it has; empty for all.
    partial: Document,
}

/// Finds the old documents whose values in a unique index an archived document has, with another `_id`.
pub(super) async fn find(shared: &Shared, results: &mut Results<Finding>) -> Result<()> {
    let indexes = list_indexes(&shared.archived).await?;
    for index in indexes.iter().filter_map(UniqueIndex::of) {
        let projection = index.fields.iter().map(|field| (field.clone(), Bson::Int32(1)));
        let options = FindOptions::builder()
            .projection(projection.collect::<Document>())
            .batch_size(BATCH);
        let old = and(shared.limit.before(shared.limit.time()), index.partial.clone());
        let mut rows = send::find_rows(&shared.current, old, send::latest(options.build())).await?;
        while let Some(batch) = next_rows(&mut rows, BATCH as usize).await? {
            for id in index.refuses(shared, &batch).await? {
                results
                    .add(Finding::new(shared.current.namespace(), id, Problem::Refused))
                    .await;
            }
        }
    }
    Ok(())
}

impl UniqueIndex {
    /// Reads an index as the server lists it. `None` unless it is unique, has no collation, and is not on `_id`.
    fn of(listed: &Document) -> Option<Self> {
        let keys = listed.get_document("key").ok()?;
        let is_checked = listed.get_bool("unique").unwrap_or(false) && !listed.contains_key("collation");
        is_checked.then(|| Self {
            fields: keys.keys().cloned().collect(),
            is_sparse: listed.get_bool("sparse").unwrap_or(false),
            partial: listed
                .get_document("partialFilterExpression")
                .cloned()
                .unwrap_or_default(),
        })
    }

    /// Returns the `_id`s of the documents that it refuses.
    async fn refuses(&self, shared: &Shared, rows: &[RawDocumentBuf]) -> Result<Vec<Bson>> {
        let equal: Vec<(Bson, Document)> = rows
            .iter()
            .filter_map(|row| Some((id_of(row), self.equal(row)?)))
            .collect();
        let any: Vec<&Document> = equal.iter().map(|(_, filter)| filter).collect();
        let mut refused = Vec::new();
        if any.is_empty() || !self.has(shared, doc! { "$or": any }).await? {
            return Ok(refused);
        }
        for (id, filter) in equal {
            if self.has(shared, filter).await?
                && Conn::new().find_one(&shared.current, by_id(&id), None).await?.is_some()
            {
                refused.push(id);
            }
        }
        Ok(refused)
    }

    /// Matches other documents with the values of a document. `None` if it has no position in the index, or several.
    fn equal(&self, document: &RawDocument) -> Option<Document> {
        let values: Vec<Option<Bson>> = self.fields.iter().map(|field| at(document, field)).collect();
        if (self.is_sparse && values.iter().all(Option::is_none))
            || values.iter().flatten().any(|one| one.as_array().is_some())
        {
            return None;
        }
        let values = self.fields.iter().zip(values);
        let mut equal: Document = values
            .map(|(field, value)| (field.clone(), doc! { "$eq": value.unwrap_or(Bson::Null) }.into()))
            .collect();
        // Two with one `_id` are another finding.
        if !equal.contains_key("_id") {
            equal.insert("_id", doc! { "$ne": id_of(document) });
        }
        Some(equal)
    }

    async fn has(&self, shared: &Shared, filter: Document) -> Result<bool> {
        let filter = and(filter, self.partial.clone());
        Ok(Conn::new().find_one(&shared.archived, filter, None).await?.is_some())
    }
}

/// Returns the value at a path. `None` for a missing one.
fn at(document: &RawDocument, path: &str) -> Option<Bson> {
    match path.split_once('.') {
        None => value(document, path),
        Some((first, rest)) => match document.get(first).ok()?? {
            mongodb::bson::RawBsonRef::Document(inner) => at(inner, rest),
            mongodb::bson::RawBsonRef::Array(_) => value(document, first),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;

    #[test]
    fn a_filter_has_the_values_of_the_index() {
        let unique = UniqueIndex::of(&doc! { "key": { "a": 1, "b.c": -1 }, "unique": true }).unwrap();
        let document = rawdoc! { "_id": 7, "b": { "c": "x" } };
        let expected = doc! { "a": { "$eq": null }, "b.c": { "$eq": "x" }, "_id": { "$ne": 7 } };
        assert_eq!(unique.equal(&document), Some(expected));
        assert_eq!(unique.equal(&rawdoc! { "_id": 7, "b": [{ "c": 1 }] }), None);
        let sparse = UniqueIndex::of(&doc! { "key": { "a": 1 }, "unique": true, "sparse": true }).unwrap();
        assert_eq!(sparse.equal(&document), None);
        for other in [
            doc! { "key": { "a": 1 } },
            doc! { "key": { "a": 1 }, "unique": true, "collation": {} },
        ] {
            assert!(UniqueIndex::of(&other).is_none());
        }
    }
}
