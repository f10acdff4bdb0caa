//! The fields of a stored document that a type does not have.

use mongodb::bson::{Bson, Document, RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::value::stored::id_of;

/// A field of a stored document that is not in what a type writes.
pub struct Unknown {
    path: Vec<String>,
    value: Bson,
    is_in_array: bool,
}

crate::redacted_debug!(Unknown);

impl Unknown {
    /// Returns its path, such as `contactInfo.fax`.
    pub fn path(&self) -> String {
        self.path.join(".")
    }

    /// Returns whether its value is null.
    pub fn is_null(&self) -> bool {
        self.value == Bson::Null
    }

    /// Puts it into another document. Returns whether it has a place there. In an array only null is not lost.
    fn put(&self, document: &mut Document) -> bool {
        let mut at = document;
        let Some((last, outer)) = self.path.split_last().filter(|_| !self.is_in_array) else {
            return self.is_null();
        };
        for name in outer {
            let inner = at.entry(name.clone()).or_insert_with(|| Document::new().into());
            match inner {
                Bson::Document(inner) => at = inner,
                _ => return false,
            }
        }
        at.entry(last.clone()).or_insert_with(|| self.value.clone());
        true
    }
}

/// Returns the fields of a stored document that are not in the document as a type writes it, at any depth. An array of
/// documents with another length is such a field.
pub fn unknown(stored: &RawDocument, known: &RawDocument) -> Vec<Unknown> {
    let mut found = Vec::new();
    in_document(stored, known, &mut Vec::new(), false, &mut found);
    found
}

fn in_document(
    stored: &RawDocument,
    known: &RawDocument,
    path: &mut Vec<String>,
    is_in_array: bool,
    found: &mut Vec<Unknown>,
) {
    for (name, value) in stored.iter().flatten() {
        path.push(name.as_str().to_owned());
        match (value, known.get(name.as_str()).ok().flatten()) {
            (value, None) => found.push(Unknown {
                path: path.clone(),
                value: value.try_into().unwrap_or(Bson::Null),
                is_in_array,
            }),
            (RawBsonRef::Document(stored), Some(RawBsonRef::Document(known))) => {
                in_document(stored, known, path, is_in_array, found);
            }
            // An array is a document with numbers as names.
            (RawBsonRef::Array(stored), Some(RawBsonRef::Array(known)))
                if stored.into_iter().count() == known.into_iter().count() =>
            {
                let (stored, known) = (
                    RawDocument::from_bytes(stored.as_bytes()),
                    RawDocument::from_bytes(known.as_bytes()),
                );
                if let (Ok(stored), Ok(known)) = (stored, known) {
                    in_document(stored, known, path, true, found);
                }
            }
            (RawBsonRef::Array(array), Some(RawBsonRef::Array(_))) if has_documents(array) => found.push(Unknown {
                path: path.clone(),
                value: Bson::Array(Vec::new()),
                is_in_array: true,
            }),
            _ => {}
        }
        path.pop();
    }
}

fn has_documents(array: &RawArray) -> bool {
    let mut elements = array.into_iter().flatten();
    elements.any(|element| matches!(element, RawBsonRef::Document(_)))
}

/// Adds fields to a document, each at its path.
pub(super) fn add(document: &RawDocument, fields: &[Unknown]) -> Result<RawDocumentBuf> {
    let mut all = Document::try_from(document).map_err(mongodb::error::Error::from)?;
    if let Some(lost) = fields.iter().find(|field| !field.put(&mut all)) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "a step would lose a field of a stored document that its old type does not have, in an array or in a value that is no document any more, nothing was changed: add the field to the type",
        )
        .of_document(id_of(document), lost.path()));
    }
    Ok(RawDocumentBuf::try_from(&all).map_err(mongodb::error::Error::from)?)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn raw(document: impl Into<Document>) -> RawDocumentBuf {
        RawDocumentBuf::try_from(&document.into()).unwrap()
    }

    #[test]
    fn fields_that_a_type_does_not_have_are_found_at_any_depth() {
        let stored = raw(doc! {
            "a": 1, "b": { "c": 1, "d": { "e": 1, "f": null } }, "g": [{ "h": 1, "i": 1 }, 2], "j": [1, 2], "k": { "l": 1 },
            "m": [{ "h": 1 }, { "h": 1 }],
        });
        let known = raw(doc! {
            "a": 7, "b": { "d": { "e": 1 } }, "g": [{ "h": 1 }, 2], "j": [1], "m": [{ "h": 1 }],
        });
        let found = unknown(&stored, &known);
        let paths: Vec<String> = found.iter().map(Unknown::path).collect();
        assert_eq!(paths, ["b.c", "b.d.f", "g.0.i", "k", "m"]);
        assert!(found[1].is_null() && found[2].is_in_array && found[4].is_in_array);
        assert!(unknown(&stored, &stored).is_empty());
    }

    #[test]
    fn they_are_added_where_they_were() {
        let stored = raw(doc! { "_id": 1, "b": { "c": 1, "d": 2 }, "e": { "f": 1 } });
        let found = unknown(&stored, &raw(doc! { "_id": 1, "b": { "c": 1 }, "e": {} }));
        let added = |new: Document| add(&raw(new), &found).map(|added| Document::try_from(added).unwrap());
        assert_eq!(
            added(doc! { "b": { "x": 1 } }).unwrap(),
            doc! { "b": { "x": 1, "d": 2 }, "e": { "f": 1 } }
        );
        // A value of the new type stays.
        let expected = doc! { "b": { "d": 3 }, "e": { "f": 1 } };
        assert_eq!(added(doc! { "b": { "d": 3 } }).unwrap(), expected);
        let error = added(doc! { "_id": 1, "b": 7 }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!((error.document_id(), error.field()), (Some(&1.into()), Some("b.d")));
        let in_array = unknown(&raw(doc! { "a": [{ "b": 1 }] }), &raw(doc! { "a": [{}] }));
        assert_eq!(add(&raw(doc! {}), &in_array).unwrap_err().field(), Some("a.0.b"));
        let null = unknown(&raw(doc! { "a": [{ "b": null }] }), &raw(doc! { "a": [{}] }));
        assert_eq!(add(&raw(doc! {}), &null).unwrap(), raw(doc! {}));
    }
}
