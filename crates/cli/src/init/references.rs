//! Suggests settings for copies of other documents: documents with an `_id` and a version, whose `_id`s another collection
//! has. Only the search for the sources reads the server.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use mongo_patterns_core::catalog;
use mongodb::bson::{Bson, Document, doc};

use super::inspect::Inspection;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::{ReferenceField, ReferenceSettings};

/// The number of copies whose sources are looked up.
const LOOKED_UP: usize = 20;
/// The name of the version.
const VERSION: &str = "v";

/// A field with copies.
#[derive(Debug, PartialEq)]
struct Candidate {
    field: String,
    is_array: bool,
    copies: Vec<Document>,
}

/// Searches for fields with copies, and for their sources. All fields of the first collection of sources are of one
/// pattern.
pub(super) async fn find(
    context: &Context,
    seen: &mut Inspection,
    collection: &str,
    documents: &[Document],
) -> Result<(), Failure> {
    let candidates = candidates(documents);
    if candidates.is_empty() {
        return Ok(());
    }
    let names = context.database.list_collection_names().await?;
    let names = names
        .iter()
        .filter(|name| *name != collection && *name != catalog::COLLECTION);
    let mut found: Option<(String, Vec<ReferenceField>)> = None;
    for candidate in &candidates {
        let mut names: Vec<&String> = names.clone().collect();
        // `customer` is probably a copy of one of `customers`.
        names.sort_by_key(|name| !name.to_lowercase().starts_with(&candidate.field.to_lowercase()));
        for name in names {
            if found.as_ref().is_some_and(|(sources, _)| sources != name) {
                continue;
            }
            let sources = sources(context, name, candidate).await?;
            let Some(reference) = reference(candidate, &sources) else {
                continue;
            };
            let first = || (name.clone(), Vec::new());
            found.get_or_insert_with(first).1.push(reference);
            break;
        }
    }
    if let Some((sources, references)) = found {
        suggest(seen, collection, sources, references);
    }
    Ok(())
}

/// Returns the fields whose values are documents with an `_id` and a version.
fn candidates(documents: &[Document]) -> Vec<Candidate> {
    let names: BTreeSet<&String> = documents.iter().flat_map(Document::keys).collect();
    let candidate = |field: &String| {
        let values = || documents.iter().filter_map(|document| document.get(field));
        let values = || values().filter(|value| !matches!(value, Bson::Null));
        let is_array = values().all(|value| value.as_array().is_some());
        let all: Vec<&Bson> = match is_array {
            true => values().filter_map(Bson::as_array).flatten().collect(),
            false => values().collect(),
        };
        let copies: Option<Vec<Document>> = all.iter().map(|value| value.as_document().cloned()).collect();
        let copies = copies.filter(|copies| !copies.is_empty())?;
        let is_copy = |copy: &Document| copy.contains_key("_id") && version(copy).is_some();
        copies.iter().all(is_copy).then(|| Candidate {
            field: field.clone(),
            is_array,
            copies,
        })
    };
    names.into_iter().filter_map(candidate).collect()
}

fn version(document: &Document) -> Option<i64> {
    match *document.get(VERSION)? {
        Bson::Int32(version) => Some(version.into()),
        Bson::Int64(version) => Some(version),
        _ => None,
    }
}

/// Reads the sources of some copies.
async fn sources(context: &Context, name: &str, candidate: &Candidate) -> Result<Vec<Document>, Failure> {
    let ids: Vec<&Bson> = candidate
        .copies
        .iter()
        .take(LOOKED_UP)
        .filter_map(|copy| copy.get("_id"))
        .collect();
    let conditions: Vec<Document> = ids.iter().map(|id| doc! { "_id": { "$eq": id } }).collect();
    let collection = context.database.collection::<Document>(name);
    let found = collection.find(doc! { "$or": conditions }).await;
    let found = found.map_err(Failure::on(collection.namespace()))?;
    found.try_collect().await.map_err(Failure::on(collection.namespace()))
}

/// Returns the reference, if most of the copies have a source, and fields of it. One with an older copy is taken for a
/// snapshot: as such no call changes its copies.
fn reference(candidate: &Candidate, sources: &[Document]) -> Option<ReferenceField> {
    let looked_up = || candidate.copies.iter().take(LOOKED_UP);
    let source_of = |copy: &Document| sources.iter().find(|source| source.get("_id") == copy.get("_id"));
    let pairs: Vec<(&Document, &Document)> = looked_up().filter_map(|copy| Some((copy, source_of(copy)?))).collect();
    if pairs.len() * 2 <= looked_up().count() {
        return None;
    }
    let is_older = |(copied, source): &(&Document, &Document)| version(copied) < version(source);
    let snapshot = pairs.iter().any(is_older);
    let mut copy = BTreeSet::new();
    for (copied, source) in pairs {
        let written = ["_id", "deleted", VERSION];
        let fields = copied.iter().filter(|(name, _)| !written.contains(&name.as_str()));
        for (name, value) in fields {
            paths(name.clone(), value, source.get(name), &mut copy);
        }
    }
    (!copy.is_empty()).then(|| ReferenceField {
        collection: None,
        field: candidate.field.clone(),
        copy: copy.into_iter().collect(),
        array: candidate.is_array,
        snapshot,
    })
}

/// Adds the path of a value that the source has too. Of a document with other fields than that of the source, the paths of
/// its fields.
fn paths(path: String, copied: &Bson, source: Option<&Bson>, found: &mut BTreeSet<String>) {
    match (copied, source) {
        (_, None) => {}
        (Bson::Document(copied), Some(Bson::Document(source))) if copied.keys().ne(source.keys()) => {
            for (name, value) in copied {
                paths(format!("{path}.{name}"), value, source.get(name), found);
            }
        }
        (_, Some(_)) => drop(found.insert(path)),
    }
}

fn suggest(seen: &mut Inspection, collection: &str, sources: String, references: Vec<ReferenceField>) {
    let mut references = references.into_iter();
    let Some(first) = references.next() else { return };
    seen.notes.push(format!(
        "`{}` has the `_id`, a version and fields of documents of {sources}: a reference with a copy",
        first.field
    ));
    seen.notes
        .push("fields that have another name in the copy are not found: add them to `copy`".to_owned());
    let further: Vec<ReferenceField> = references.collect();
    seen.profile.reference = Some(ReferenceSettings {
        collection: Some(collection.to_owned()),
        source_collection: Some(sources),
        reference: Some(first.field),
        copy: Some(first.copy),
        array: first.array.then_some(true),
        snapshot: first.snapshot.then_some(true),
        version_field: None,
        source_key: None,
        further: (!further.is_empty()).then_some(further),
    });
    seen.patterns.push("reference");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> Vec<Document> {
        let copy =
            |id: i32| doc! { "_id": id, "name": "Ann", "address": { "city": "Dublin" }, "v": 1_i64, "note": "x" };
        (0..9)
            .map(|n| doc! { "_id": n, "customer": copy(n % 3), "address": { "_id": n } })
            .collect()
    }

    #[test]
    fn documents_with_an_id_and_a_version_are_copies() {
        let found = candidates(&orders());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].field.as_str(), found[0].is_array), ("customer", false));
        let array = doc! { "_id": 1, "products": [{ "_id": 1, "v": 0 }, { "_id": 2, "v": 3 }] };
        assert!(candidates(&[array])[0].is_array);
        assert!(candidates(&[doc! { "_id": 1, "products": [] }]).is_empty());
    }

    #[test]
    fn the_copied_paths_are_those_that_the_sources_have() {
        let candidate = &candidates(&orders())[0];
        let source = |id: i32| doc! { "_id": id, "name": "Ann", "address": { "city": "Dublin", "zip": "D1" } };
        let found = reference(candidate, &[source(0), source(1), source(2)]).unwrap();
        assert_eq!(
            (found.copy, found.snapshot),
            (vec!["address.city".to_owned(), "name".to_owned()], false)
        );
        let updated = doc! { "_id": 1, "name": "Anna", "v": 2 };
        assert!(reference(candidate, &[source(0), source(2), updated]).unwrap().snapshot);
        assert_eq!(reference(candidate, &[source(0)]), None);
        let others = [0, 1, 2].map(|id| doc! { "_id": id, "other": 1 });
        assert_eq!(reference(candidate, &others), None);
    }
}
