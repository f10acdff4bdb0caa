//! Referring documents.

use std::collections::BTreeSet;

use mongo_patterns_core::stored;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, FieldName, Result, size};
use mongodb::bson;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::copy;
use super::id::canonical;
use super::source::Source;
use crate::results::no_source;
use crate::settings::{ReferenceField, Settings};

/// A value in a reference field that is not a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OtherForm {
    DbRef,
    /// Another document without an `_id`.
    WithoutId,
    /// Another value, such as an id alone.
    Value,
}

impl OtherForm {
    fn of_value(value: &Bson) -> Self {
        match value.as_document() {
            Some(document) if document.contains_key("_id") => Self::Value,
            Some(document) if document.contains_key("$id") => Self::DbRef,
            Some(_) => Self::WithoutId,
            None => Self::Value,
        }
    }
}

/// A document of the caller, checked, before the copies are filled in.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    /// Its `_id`.
    pub(crate) id: Bson,
    document: Document,
}

/// A value that should be a reference, and is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAReference;

impl Encoded {
    /// Encodes a document to insert.
    pub(crate) fn new<D: Serialize>(settings: &Settings, document: &D) -> Result<Self> {
        let raw = bson::serialize_to_raw_document_buf(document).map_err(|error| not_encoded(&error))?;
        size::check(&raw)?;
        let mut encoded = Document::try_from(raw).map_err(|error| not_encoded(&error))?;
        let id = encoded.remove("_id").unwrap_or_else(|| ObjectId::new().into());
        let id = DocumentId::new(id)?.into_bson();
        let mut document = doc! { "_id": id.clone() };
        document.extend(encoded);
        for field in settings.own() {
            if let Some(key) = &settings.key {
                set_key(field, key, &mut document);
            }
            check(settings, field, &document)?;
        }
        Ok(Self { id, document })
    }

    /// Returns the names of the sources in a reference field: their ids, or the values of the source key.
    pub(crate) fn sources<'d>(&'d self, settings: &Settings, field: &ReferenceField) -> Vec<&'d Bson> {
        let name = settings.named_by();
        let (references, _) = references(field, &self.document, name);
        references.into_iter().filter_map(|copy| copy.get(name)).collect()
    }

    /// Returns the document with the copies of its sources, by their names.
    pub(crate) fn with_copies<'s>(
        &self,
        settings: &Settings,
        source: impl Fn(&Bson) -> Option<&'s Source>,
    ) -> Result<RawDocumentBuf> {
        let mut document = self.document.clone();
        for field in settings.own() {
            for own in copies_mut(field, &mut document) {
                if let Some(source) = own.get(settings.named_by()).and_then(&source) {
                    let is_other = |id: &Bson| *id != Bson::Null && canonical(id) != canonical(&source.id);
                    if settings.key.is_some() && own.get("_id").is_some_and(is_other) {
                        return Err(no_source());
                    }
                    *own = copy::new(settings, field, source, Some(std::mem::take(own)));
                }
            }
        }
        let raw = RawDocumentBuf::try_from(&document).map_err(|error| not_encoded(&error))?;
        size::check(&raw)?;
        Ok(raw)
    }
}

/// Replaces the values in a field that are no documents by documents with the source key.
fn set_key(field: &ReferenceField, key: &FieldName, document: &mut Document) {
    let set = |value: &mut Bson| {
        if !matches!(value, Bson::Document(_)) {
            *value = doc! { key.as_str(): std::mem::replace(value, Bson::Null) }.into();
        }
    };
    match document.get_mut(field.name.as_str()) {
        Some(Bson::Array(elements)) if field.is_array => elements.iter_mut().for_each(set),
        Some(value) if !field.is_array && *value != Bson::Null => set(value),
        _ => {}
    }
}

/// Refuses a reference field with another value than a reference, or an array of different ones.
fn check(settings: &Settings, field: &ReferenceField, document: &Document) -> Result<()> {
    let invalid = |problem: &str| {
        let message = format!("the field `{}` of the document {problem}", field.name);
        Error::new(ErrorKind::InvalidArgument, message)
    };
    let name = settings.named_by();
    let (references, has_other) = references(field, document, name);
    if has_other {
        let array = if field.is_array {
            "an array of documents"
        } else {
            "a document"
        };
        let problem =
            format!("is not {array} with the `{name}` of a source, nothing was stored: set it to one, or omit it");
        return Err(invalid(&problem));
    }
    let mut seen = std::collections::HashSet::new();
    match references
        .iter()
        .filter_map(|copy| copy.get(name))
        .all(|id| seen.insert(canonical(id)))
    {
        true => Ok(()),
        false => Err(invalid(
            "refers to one source twice, nothing was stored: store one element for a source, for example with a quantity",
        )),
    }
}

/// Returns the copies in a field: none if it is missing or null.
pub(crate) fn copies<'d>(
    field: &ReferenceField,
    document: &'d Document,
) -> std::result::Result<Vec<&'d Document>, NotAReference> {
    match stored_copies(field, document) {
        (copies, false) => Ok(copies),
        (_, true) => Err(NotAReference),
    }
}

/// Returns the copies in a field, and whether it has another value than references.
pub(crate) fn stored_copies<'d>(field: &ReferenceField, document: &'d Document) -> (Vec<&'d Document>, bool) {
    references(field, document, "_id")
}

/// Does what [`stored_copies`] does, for references that name their source by this field.
fn references<'d>(field: &ReferenceField, document: &'d Document, name: &str) -> (Vec<&'d Document>, bool) {
    let Some(values) = values(field, document) else {
        return (Vec::new(), true);
    };
    let references: Vec<&Document> = values.iter().filter_map(|value| as_reference(value, name)).collect();
    let has_other = references.len() < values.len();
    (references, has_other)
}

/// Returns the forms of the values in a field that are not references, each once.
pub(crate) fn other_forms(field: &ReferenceField, document: &Document) -> BTreeSet<OtherForm> {
    match values(field, document) {
        None => BTreeSet::from([OtherForm::Value]),
        Some(values) => {
            let others = values.iter().filter(|value| as_reference(value, "_id").is_none());
            others.map(OtherForm::of_value).collect()
        }
    }
}

/// Returns the values in a field, each of which should be a reference. `None` for another value than an array of them.
fn values<'d>(field: &ReferenceField, document: &'d Document) -> Option<&'d [Bson]> {
    match document.get(field.name.as_str()) {
        None | Some(Bson::Null) => Some(&[]),
        Some(Bson::Array(elements)) if field.is_array => Some(elements),
        Some(_) if field.is_array => None,
        Some(value) => Some(std::slice::from_ref(value)),
    }
}

fn as_reference<'d>(value: &'d Bson, name: &str) -> Option<&'d Document> {
    // A document could not be told from a reference.
    let is_name =
        |value: &Bson| (name == "_id" || value.as_document().is_none()) && DocumentId::new(value.clone()).is_ok();
    value.as_document().filter(|copy| copy.get(name).is_some_and(is_name))
}

/// Returns the documents in a field, to change them.
pub(crate) fn copies_mut<'d>(field: &ReferenceField, document: &'d mut Document) -> Vec<&'d mut Document> {
    match document.get_mut(field.name.as_str()) {
        Some(Bson::Document(copy)) if !field.is_array => vec![copy],
        Some(Bson::Array(elements)) if field.is_array => elements
            .iter_mut()
            .filter_map(|element| match element {
                Bson::Document(copy) => Some(copy),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

pub(crate) fn decode<D: DeserializeOwned>(document: &RawDocument) -> Result<D> {
    let text =
        "a stored document cannot be decoded as the type of the repository: change the type, or repair the document";
    stored::decode(document, text)
}

pub(crate) fn not_encoded(error: &bson::error::Error) -> Error {
    let message = "the document cannot be encoded as BSON, nothing was stored: see as_driver_error() for the reason";
    Error::from_driver(ErrorKind::Encode, message, error.clone())
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;
    use crate::settings::tests::example;

    #[test]
    fn a_document_refers_to_sources_or_to_none() {
        let settings = example();
        let encoded = |document: Document| Encoded::new(&settings, &document);
        let none = encoded(doc! { "customer": null }).unwrap();
        assert!(none.sources(&settings, &settings.references[0]).is_empty());
        assert!(none.document.get_object_id("_id").is_ok());
        let some =
            encoded(doc! { "x": 1, "_id": 7, "customer": { "_id": 456 }, "products": [{ "_id": 1 }, { "_id": 2 }] });
        let some = some.unwrap();
        assert_eq!(some.document.keys().next().map(String::as_str), Some("_id"));
        assert_eq!(some.sources(&settings, &settings.references[0]), [&Bson::Int32(456)]);
        assert_eq!(some.sources(&settings, &settings.references[1]).len(), 2);
        for bad in [
            doc! { "customer": 456 },
            doc! { "customer": {} },
            doc! { "customer": { "_id": null } },
            doc! { "customer": [{ "_id": 1 }] },
            doc! { "products": { "_id": 1 } },
            doc! { "products": [{ "_id": 1 }, 2] },
            doc! { "products": [{ "_id": 1 }, { "_id": 1_i64 }] },
            doc! { "_id": [1] },
        ] {
            let error = encoded(bad.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn the_copies_are_filled_in() {
        let settings = example();
        let pen = Source::read(&settings, &rawdoc! { "_id": 1, "name": "pen", "v": 2 }).unwrap();
        let order = doc! { "_id": 7, "products": [{ "quantity": 3, "_id": 1, "name": "?" }], "note": "x" };
        let encoded = Encoded::new(&settings, &order).unwrap();
        let filled = encoded.with_copies(&settings, |_| Some(&pen)).unwrap();
        assert_eq!(
            Document::try_from(filled).unwrap(),
            doc! { "_id": 7, "products": [{ "_id": 1, "name": "pen", "v": 2_i64, "quantity": 3 }], "note": "x" }
        );
    }
}
