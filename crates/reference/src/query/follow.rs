//! The commands of a follower.
//!
//! # Design
//!
//! ## Why does the server send no values?
//!
//! The follower copies the current values of a source, which it reads once for all changes of a batch. Documents can be
//! large.

use mongo_patterns_core::stored::can_be_in;
use mongodb::bson::{Bson, Document, doc};

use super::{by_id, with_copy};
use crate::form::copy::PLAUSIBLE;
use crate::form::source::{Source, version_to_bson};
use crate::settings::{ReferenceField, Settings};

/// Projects the events of the change stream to the `_id` of the document and the paths of the changed fields.
pub(crate) fn changes() -> Vec<Document> {
    let updated = doc! { "$objectToArray": "$updateDescription.updatedFields" };
    vec![doc! { "$project": {
        "operationType": 1,
        "ns.coll": 1,
        "documentKey._id": 1,
        "updated": { "$map": { "input": updated, "in": "$$this.k" } },
        "removed": "$updateDescription.removedFields",
        "truncated": "$updateDescription.truncatedArrays.field",
    } }]
}

/// The settings that all followers of one name share.
pub(crate) fn record_settings(settings: &Settings, sources: &str, collections: &[&str]) -> Document {
    let reference = |reference: &ReferenceField| {
        let collection = collections.get(reference.collection).copied().unwrap_or_default();
        (collection.to_owned(), reference.name.as_str().to_owned())
    };
    let references: std::collections::BTreeSet<_> = settings.references.iter().map(reference).collect();
    let references = references.into_iter();
    let references = references.map(|(collection, field)| doc! { "collection": collection, "field": field });
    doc! {
        "pattern": "reference",
        "sources": sources,
        "version": settings.version.as_str(),
        "references": references.collect::<Vec<_>>(),
    }
}

/// Returns the sources that are referred to, at least one id. The server reads one key of the index for each, or all of
/// their documents for an array.
pub(crate) fn referenced(field: &ReferenceField, sources: &[Bson]) -> Vec<Document> {
    let path = field.path("_id");
    let of_sources = match sources.iter().all(can_be_in) {
        true => doc! { "$match": { &path: { "$in": sources } } },
        false => {
            let each = sources.iter().map(|id| doc! { &path: { "$eq": id } });
            doc! { "$match": { "$or": each.collect::<Vec<_>>() } }
        }
    };
    let mut pipeline = vec![of_sources.clone()];
    if field.is_array {
        pipeline.push(doc! { "$unwind": format!("${}", field.name) });
        pipeline.push(of_sources);
    }
    pipeline.push(doc! { "$group": { "_id": format!("${path}") } });
    pipeline
}

/// Returns the highest version of the copies that are newer than their source.
pub(crate) fn newest(settings: &Settings, field: &ReferenceField, source: &Source) -> Vec<Document> {
    let mut copy = by_id(&source.id);
    // A number, because `$gt` compares values of one type.
    let newer = doc! { "$gt": source.stored_version(), "$lt": version_to_bson(PLAUSIBLE) };
    copy.insert(settings.version.as_str(), newer);
    let mut pipeline = vec![doc! { "$match": with_copy(field, copy) }];
    if field.is_array {
        pipeline.push(doc! { "$unwind": format!("${}", field.name) });
        pipeline.push(doc! { "$match": { field.path("_id"): { "$eq": &source.id } } });
    }
    let version = format!("${}", field.path(settings.version.as_str()));
    pipeline.push(doc! { "$group": { "_id": null, "v": { "$max": version } } });
    pipeline
}

/// Matches documents with copies that have the version of their source.
pub(crate) fn as_new(settings: &Settings, field: &ReferenceField, source: &Source) -> Document {
    let mut copy = by_id(&source.id);
    copy.insert(settings.version.as_str(), doc! { "$eq": source.stored_version() });
    with_copy(field, copy)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;
    use crate::settings::tests::example;

    fn pen() -> Source {
        Source::read(&example(), &rawdoc! { "_id": 1, "name": "pen", "v": 4 }).unwrap()
    }

    #[test]
    fn the_server_sends_ids_and_paths_alone() {
        let updated = doc! { "$objectToArray": "$updateDescription.updatedFields" };
        assert_eq!(
            changes(),
            [doc! { "$project": {
                "operationType": 1,
                "ns.coll": 1,
                "documentKey._id": 1,
                "updated": { "$map": { "input": updated, "in": "$$this.k" } },
                "removed": "$updateDescription.removedFields",
                "truncated": "$updateDescription.truncatedArrays.field",
            } }]
        );
    }

    #[test]
    fn a_follower_belongs_to_collections_and_fields() {
        assert_eq!(
            record_settings(&example(), "sources", &["orders"]),
            doc! {
                "pattern": "reference",
                "sources": "sources",
                "version": "v",
                "references": [
                    { "collection": "orders", "field": "customer" },
                    { "collection": "orders", "field": "products" },
                ],
            }
        );
    }

    #[test]
    fn sources_without_references_are_found_together() {
        let settings = example();
        let [customer, products] = [0, 1].map(|n| &settings.references[n]);
        let some = doc! { "$match": { "customer._id": { "$in": [1, "a"] } } };
        assert_eq!(
            referenced(customer, &[1.into(), "a".into()]),
            [some, doc! { "$group": { "_id": "$customer._id" } }]
        );
        let id = Bson::from(doc! { "$gt": 1 });
        let some = doc! { "$match": { "$or": [{ "products._id": { "$eq": id.clone() } }] } };
        assert_eq!(
            referenced(products, &[id]),
            [
                some.clone(),
                doc! { "$unwind": "$products" },
                some,
                doc! { "$group": { "_id": "$products._id" } },
            ]
        );
    }

    #[test]
    fn the_highest_version_of_newer_copies_is_read() {
        let settings = example();
        let [customer, products] = [0, 1].map(|n| &settings.references[n]);
        let newer = doc! { "$gt": 4_i64, "$lt": 1_i64 << 52 };
        assert_eq!(
            newest(&settings, customer, &pen()),
            [
                doc! { "$match": { "customer._id": { "$eq": 1 }, "customer.v": newer.clone() } },
                doc! { "$group": { "_id": null, "v": { "$max": "$customer.v" } } },
            ]
        );
        assert_eq!(
            newest(&settings, products, &pen()),
            [
                doc! { "$match": { "products": { "$elemMatch": { "_id": { "$eq": 1 }, "v": newer } } } },
                doc! { "$unwind": "$products" },
                doc! { "$match": { "products._id": { "$eq": 1 } } },
                doc! { "$group": { "_id": null, "v": { "$max": "$products.v" } } },
            ]
        );
        assert_eq!(
            as_new(&settings, customer, &pen()),
            doc! { "customer._id": { "$eq": 1 }, "customer.v": { "$eq": 4_i64 } }
        );
    }
}
