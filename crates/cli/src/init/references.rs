//! Suggests settings for copies of other documents: documents with an `_id` and a version, whose `_id`s another collection
//! has.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};

use super::Seen;
use super::lists::LOOKED_UP;
use super::others;
use super::sample::{Sample, integer};
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::{ReferenceField, ReferenceSettings};

/// The name of the version.
const VERSION: &str = "v";

/// A field with copies.
#[derive(Debug, PartialEq)]
struct Candidate {
    field: String,
    is_array: bool,
    /// Some of them.
    copies: Vec<Document>,
}

/// Searches for fields with copies, and for their sources. All fields of the first collection of sources are of one
/// pattern.
pub(super) async fn find(context: &Context, sample: &Sample, seen: &mut Seen) -> Result<(), Failure> {
    let candidates = candidates(sample);
    if candidates.is_empty() {
        return Ok(());
    }
    for name in others::names(context, &sample.collection).await? {
        let mut references = Vec::new();
        for candidate in &candidates {
            let sources = sources(context, &name, candidate).await?;
            references.extend(reference(candidate, &sources));
        }
        let mut references = references.into_iter();
        let Some(first) = references.next() else { continue };
        let further: Vec<ReferenceField> = references.collect();
        seen.note(format!(
            "`{}` has the `_id`, a version and fields of documents of {name}: a copy",
            first.field
        ));
        seen.note("fields that have another name in the copy are not found: add them to `copy`".to_owned());
        seen.profile.reference.push(ReferenceSettings {
            collection: Some(sample.collection.clone()),
            source_collection: Some(name),
            reference: Some(first.field),
            copy: Some(first.copy),
            array: first.array.then_some(true),
            snapshot: first.snapshot.then_some(true),
            further: (!further.is_empty()).then_some(further),
            ..ReferenceSettings::default()
        });
        return Ok(());
    }
    Ok(())
}

/// Returns the fields whose values are documents with an `_id` and a version.
fn candidates(sample: &Sample) -> Vec<Candidate> {
    let candidate = |field: &str| {
        let values = sample.documents.iter().filter_map(|document| document.get(field));
        let values: Vec<&Bson> = values.filter(|value| !matches!(value, Bson::Null)).collect();
        let is_array = values.iter().all(|value| value.as_array().is_some());
        let all: Vec<&Bson> = match is_array {
            true => sample.elements(field).collect(),
            false => values,
        };
        let is_copy = |copy: &&Document| copy.contains_key("_id") && version(copy).is_some();
        let copies: Option<Vec<&Document>> = all.iter().map(|copy| copy.as_document().filter(is_copy)).collect();
        let copies = copies.filter(|copies| !copies.is_empty())?;
        Some(Candidate {
            field: field.to_owned(),
            is_array,
            copies: copies.into_iter().take(LOOKED_UP).cloned().collect(),
        })
    };
    sample.names().into_iter().filter_map(candidate).collect()
}

fn version(document: &Document) -> Option<i64> {
    document.get(VERSION).and_then(integer)
}

/// Reads the sources of copies.
async fn sources(context: &Context, name: &str, candidate: &Candidate) -> Result<Vec<Document>, Failure> {
    let ids = candidate.copies.iter().filter_map(|copy| copy.get("_id"));
    let conditions: Vec<Document> = ids.map(|id| doc! { "_id": { "$eq": id } }).collect();
    let collection = context.database.collection::<Document>(name);
    let found = collection.find(doc! { "$or": conditions }).await;
    let found = found.map_err(Failure::on(collection.namespace()))?;
    found.try_collect().await.map_err(Failure::on(collection.namespace()))
}

/// Returns the reference, if most of the copies have a source, and fields of it. One with an older copy is taken for a
/// snapshot: as such no call changes its copies.
fn reference(candidate: &Candidate, sources: &[Document]) -> Option<ReferenceField> {
    let copies = &candidate.copies;
    let source_of = |copy: &Document| sources.iter().find(|source| source.get("_id") == copy.get("_id"));
    let pairs: Vec<(&Document, &Document)> = copies
        .iter()
        .filter_map(|copy| Some((copy, source_of(copy)?)))
        .collect();
    if pairs.len() * 2 <= copies.len() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::sample;

    fn orders() -> Sample {
        let copy =
            |id: i32| doc! { "_id": id, "name": "Ann", "address": { "city": "Dublin" }, "v": 1_i64, "note": "x" };
        let order = |n: i32| doc! { "_id": n, "customer": copy(n % 3), "address": { "_id": n } };
        sample::sample("orders", (0..9).map(order), &[])
    }

    #[test]
    fn documents_with_an_id_and_a_version_are_copies() {
        let found = candidates(&orders());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].field.as_str(), found[0].is_array), ("customer", false));
        let array = doc! { "_id": 1, "products": [{ "_id": 1, "v": 0 }, { "_id": 2, "v": 3 }] };
        assert!(candidates(&sample::sample("orders", [array], &[]))[0].is_array);
        assert!(candidates(&sample::sample("orders", [doc! { "products": [] }], &[])).is_empty());
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
