//! The filters, updates and aggregations, as pure functions.

pub(crate) mod expression;
pub(crate) mod follow;
pub(crate) mod from_references;
pub(crate) mod new_copy;
pub(crate) mod options;
pub(crate) mod scan;
pub(crate) mod validator;

pub(crate) use mongo_patterns_core::document_id::{by_id, by_ids};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};

use crate::form::copy;
use crate::form::source::{Source, version_to_bson};
use crate::settings::{DELETED, MARK, ReferenceField, Settings};

/// The name of an element of an array in an array filter.
const ELEMENT: &str = "copy";

/// Matches documents with a copy that has these fields.
fn with_copy(field: &ReferenceField, copy: Document) -> Document {
    if field.is_array {
        return doc! { field.name.as_str(): { "$elemMatch": copy } };
    }
    copy.into_iter()
        .map(|(name, condition)| (field.path(&name), condition))
        .collect()
}

pub(crate) fn referring(field: &ReferenceField, source: &Bson) -> Document {
    with_copy(field, by_id(source))
}

/// Matches a document while it refers to a source.
pub(crate) fn one_referring(field: &ReferenceField, document: &Bson, source: &Bson) -> Document {
    let mut filter = by_id(document);
    filter.extend(referring(field, source));
    filter
}

/// Matches documents that refer to a source that is not marked as deleted.
pub(crate) fn referring_to_existing(field: &ReferenceField, source: &Bson) -> Document {
    let mut copy = by_id(source);
    copy.insert(DELETED, doc! { "$ne": true });
    with_copy(field, copy)
}

/// Matches a document while it does.
pub(crate) fn one_referring_to_existing(field: &ReferenceField, document: &Bson, source: &Bson) -> Document {
    let mut filter = by_id(document);
    filter.extend(referring_to_existing(field, source));
    filter
}

/// Matches copies that are older than their source, or have no version.
fn outdated(settings: &Settings, source: &Source) -> Document {
    let mut copy = by_id(&source.id);
    copy.insert(
        settings.version.as_str(),
        doc! { "$not": { "$gte": source.stored_version() } },
    );
    copy
}

/// An update of copies: its filter, the update, and the filters of the elements of an array.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CopyUpdate {
    pub(crate) filter: Document,
    pub(crate) update: Document,
    pub(crate) array_filters: Option<Vec<Document>>,
}

impl CopyUpdate {
    fn new(field: &ReferenceField, copy: Document, update: impl FnOnce(&str) -> Document) -> Self {
        match field.is_array {
            false => Self {
                update: update(field.name.as_str()),
                filter: with_copy(field, copy),
                array_filters: None,
            },
            true => {
                let of_element = copy.iter();
                let of_element: Document = of_element
                    .map(|(name, condition)| (format!("{ELEMENT}.{name}"), condition.clone()))
                    .collect();
                Self {
                    update: update(&format!("{}.$[{ELEMENT}]", field.name)),
                    filter: with_copy(field, copy),
                    array_filters: Some(vec![of_element]),
                }
            }
        }
    }

    /// Updates the outdated copies of a source.
    pub(crate) fn sweep(settings: &Settings, field: &ReferenceField, source: &Source) -> Self {
        Self::new(field, outdated(settings, source), |path| {
            copy::update(settings, field, source, path)
        })
    }

    /// Makes copies equal to a source that are not newer than it.
    pub(crate) fn not_newer(settings: &Settings, field: &ReferenceField, source: &Source) -> Self {
        let mut copy = by_id(&source.id);
        let version = doc! { "$not": { "$gt": source.stored_version() } };
        copy.insert(settings.version.as_str(), version);
        Self::new(field, copy, |path| copy::update(settings, field, source, path))
    }

    /// Removes values from outdated copies that are not documents, at the path of a document with copied fields.
    pub(crate) fn obstacles(settings: &Settings, field: &ReferenceField, source: &Source) -> Vec<Self> {
        let parents = field.copied.iter().flat_map(|copied| {
            let parts = copied.target.parts();
            (1..parts.len()).map(|parents| parts[..parents].join("."))
        });
        let parents: std::collections::BTreeSet<String> = parents.collect();
        // An array of documents has the type of its elements too.
        let conditions = [
            doc! { "$exists": true, "$not": { "$type": "object" } },
            doc! { "$type": "array" },
        ];
        let of_parent = |parent: String| {
            conditions.clone().map(|condition| {
                let mut copy = outdated(settings, source);
                copy.insert(&parent, condition);
                Self::new(
                    field,
                    copy,
                    |path| doc! { "$unset": { format!("{path}.{parent}"): "" } },
                )
            })
        };
        parents.into_iter().flat_map(of_parent).collect()
    }

    /// Marks the copies of a deleted source.
    pub(crate) fn mark_deleted(field: &ReferenceField, source: &Bson) -> Self {
        let mut copy = by_id(source);
        copy.insert(DELETED, doc! { "$ne": true });
        Self::new(
            field,
            copy,
            |path| doc! { "$set": { format!("{path}.{DELETED}"): true } },
        )
    }

    /// Removes the mark of a deleted source.
    pub(crate) fn unmark_deleted(field: &ReferenceField, source: &Bson) -> Self {
        let mut copy = by_id(source);
        copy.insert(DELETED, true);
        Self::new(
            field,
            copy,
            |path| doc! { "$unset": { format!("{path}.{DELETED}"): "" } },
        )
    }

    /// Removes the version of the copies that have this value as their version.
    pub(crate) fn remove_version(settings: &Settings, field: &ReferenceField, source: &Bson, version: &Bson) -> Self {
        let name = settings.version.as_str();
        let mut copy = by_id(source);
        copy.insert(name, doc! { "$eq": version });
        Self::new(field, copy, |path| doc! { "$unset": { format!("{path}.{name}"): "" } })
    }

    /// Removes the references to a source.
    pub(crate) fn clear(field: &ReferenceField, source: &Bson) -> Self {
        Self {
            filter: without_arrays(field, referring(field, source)),
            update: removal(field, source),
            array_filters: None,
        }
    }

    /// Restricts it to one document.
    pub(crate) fn of_document(self, document: &Bson) -> Self {
        self.of_documents(std::slice::from_ref(document))
    }

    /// Restricts it to some documents. At least one.
    pub(crate) fn of_documents(mut self, documents: &[Bson]) -> Self {
        let mut filter = by_ids(documents);
        filter.extend(std::mem::take(&mut self.filter));
        self.filter = filter;
        self
    }
}

/// Restricts a filter of copies to documents whose field is not an array, unless it holds an array of references.
pub(crate) fn without_arrays(field: &ReferenceField, mut filter: Document) -> Document {
    if !field.is_array {
        filter.insert(field.name.as_str(), doc! { "$not": { "$type": "array" } });
    }
    filter
}

pub(crate) fn removal(field: &ReferenceField, source: &Bson) -> Document {
    match field.is_array {
        true => doc! { "$pull": { field.name.as_str(): by_id(source) } },
        false => doc! { "$unset": { field.name.as_str(): "" } },
    }
}

/// Matches a document unless it has a newer copy of the source.
pub(crate) fn settable(settings: &Settings, field: &ReferenceField, document: &Bson, source: &Source) -> Document {
    let mut newer = referring(field, &source.id);
    newer.insert(
        field.path(settings.version.as_str()),
        doc! { "$gt": source.stored_version() },
    );
    let mut filter = by_id(document);
    filter.insert("$nor", vec![newer]);
    filter
}

pub(crate) fn set(field: &ReferenceField, copy: Document) -> Document {
    doc! { "$set": { field.name.as_str(): copy } }
}

/// Removes a reference.
pub(crate) fn unset(field: &ReferenceField) -> Document {
    doc! { "$unset": { field.name.as_str(): "" } }
}

/// Matches a document whose array does not refer to a source, and is not null.
pub(crate) fn addable(field: &ReferenceField, document: &Bson, source: &Bson) -> Document {
    let mut filter = by_id(document);
    filter.insert(field.name.as_str(), doc! { "$not": { "$type": "null" } });
    filter.insert(field.path("_id"), doc! { "$ne": source });
    filter
}

/// Adds a reference to an array.
pub(crate) fn add(field: &ReferenceField, copy: Document) -> Document {
    doc! { "$push": { field.name.as_str(): copy } }
}

/// Replaces an array that is null.
pub(crate) fn set_array(field: &ReferenceField, copy: Document) -> Document {
    doc! { "$set": { field.name.as_str(): [copy] } }
}

/// Matches a document whose array is null.
pub(crate) fn null_array(field: &ReferenceField, document: &Bson) -> Document {
    let mut filter = by_id(document);
    filter.insert(field.name.as_str(), doc! { "$type": "null" });
    filter
}

/// Matches a source with the mark of one deletion.
pub(crate) fn marked(source: &Bson, mark: ObjectId) -> Document {
    let mut filter = by_id(source);
    filter.insert(MARK, mark);
    filter
}

/// Sets the mark of a deletion.
pub(crate) fn mark(mark: ObjectId) -> Document {
    doc! { "$set": { MARK: mark } }
}

/// Removes the mark of a deletion.
pub(crate) fn unmark() -> Document {
    doc! { "$unset": { MARK: "" } }
}

/// Increments the version of a source, or raises it above a copy's version.
pub(crate) fn raise_version(settings: &Settings, above: Option<u64>) -> Document {
    match above {
        None => doc! { "$inc": { settings.version.as_str(): 1_i64 } },
        Some(version) => doc! { "$max": { settings.version.as_str(): version_to_bson(version.saturating_add(1)) } },
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::RawDocumentBuf;

    use super::*;
    use crate::settings::tests::example;

    fn pen() -> Source {
        let raw = RawDocumentBuf::try_from(&doc! { "_id": 1, "name": "pen", "v": 4 }).unwrap();
        Source::read(&example(), &raw).unwrap()
    }

    #[test]
    fn an_id_with_operators_is_a_value() {
        let id = Bson::from(doc! { "$gt": 1 });
        assert_eq!(by_id(&id), doc! { "_id": { "$eq": { "$gt": 1 } } });
        assert_eq!(
            by_ids(&[id.clone(), 2.into()]),
            doc! { "$or": [{ "_id": { "$eq": { "$gt": 1 } } }, { "_id": { "$eq": 2 } }] }
        );
        assert_eq!(by_ids(&[1.into(), "a".into()]), doc! { "_id": { "$in": [1, "a"] } });
        let settings = example();
        assert_eq!(
            referring(&settings.references[0], &id),
            doc! { "customer._id": { "$eq": { "$gt": 1 } } }
        );
        assert_eq!(
            removal(&settings.references[1], &id),
            doc! { "$pull": { "products": { "_id": { "$eq": { "$gt": 1 } } } } }
        );
    }

    #[test]
    fn a_sweep_updates_older_copies_and_those_without_a_version() {
        let settings = example();
        let sweep = CopyUpdate::sweep(&settings, &settings.references[0], &pen());
        assert_eq!(
            sweep.filter,
            doc! { "customer._id": { "$eq": 1 }, "customer.v": { "$not": { "$gte": 4_i64 } } }
        );
        assert_eq!(
            sweep.update.get_document("$set").unwrap(),
            &doc! { "customer.name": "pen", "customer.v": 4_i64 }
        );
        assert_eq!(sweep.array_filters, None);
    }

    #[test]
    fn a_sweep_of_arrays_updates_single_elements() {
        let settings = example();
        let sweep = CopyUpdate::sweep(&settings, &settings.references[1], &pen()).of_document(&7.into());
        let outdated = doc! { "_id": { "$eq": 1 }, "v": { "$not": { "$gte": 4_i64 } } };
        assert_eq!(
            sweep,
            CopyUpdate {
                filter: doc! { "_id": { "$eq": 7 }, "products": { "$elemMatch": outdated } },
                update: doc! { "$set": { "products.$[copy].name": "pen", "products.$[copy].v": 4_i64 } },
                array_filters: Some(vec![
                    doc! { "copy._id": { "$eq": 1 }, "copy.v": { "$not": { "$gte": 4_i64 } } }
                ]),
            }
        );
    }

    #[test]
    fn values_that_are_not_documents_are_removed_before_a_nested_field_is_set() {
        let settings = example();
        let [customer, products] = [0, 1].map(|n| &settings.references[n]);
        let obstacles = CopyUpdate::obstacles(&settings, customer, &pen());
        assert_eq!(obstacles.len(), 2);
        assert_eq!(
            obstacles[0],
            CopyUpdate {
                filter: doc! {
                    "customer._id": { "$eq": 1 },
                    "customer.v": { "$not": { "$gte": 4_i64 } },
                    "customer.address": { "$exists": true, "$not": { "$type": "object" } },
                },
                update: doc! { "$unset": { "customer.address": "" } },
                array_filters: None,
            }
        );
        assert_eq!(
            obstacles[1].filter.get_document("customer.address").unwrap(),
            &doc! { "$type": "array" }
        );
        assert_eq!(CopyUpdate::obstacles(&settings, products, &pen()), []);
        let filter = doc! { "customer._id": 1 };
        assert_eq!(
            without_arrays(customer, filter.clone()),
            doc! { "customer._id": 1, "customer": { "$not": { "$type": "array" } } }
        );
        assert_eq!(without_arrays(products, filter.clone()), filter);
    }

    #[test]
    fn a_reference_is_set_unless_the_copy_is_newer() {
        let settings = example();
        assert_eq!(
            settable(&settings, &settings.references[0], &7.into(), &pen()),
            doc! {
                "_id": { "$eq": 7 },
                "$nor": [{ "customer._id": { "$eq": 1 }, "customer.v": { "$gt": 4_i64 } }],
            }
        );
    }
}
