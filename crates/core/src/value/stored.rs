//! Reads of stored documents, in which every field can have any value or be missing.

use mongodb::bson::{self, Bson, RawBsonRef, RawDocument};
use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use crate::error::{Error, ErrorKind, Result};

/// Returns the value of a field.
pub fn value(document: &RawDocument, field: impl AsRef<str>) -> Option<Bson> {
    document.get(field.as_ref()).ok()??.try_into().ok()
}

/// Returns the `_id` of a document; null if it has none.
pub fn id_of(document: &RawDocument) -> Bson {
    value(document, "_id").unwrap_or(Bson::Null)
}

/// Decodes a document.
pub fn decode<T: DeserializeOwned>(document: &RawDocument, text: &'static str) -> Result<T> {
    bson::deserialize_from_slice(document.as_bytes()).map_err(|error| {
        let path = path_of::<T>(RawBsonRef::Document(document), &error);
        not_decoded(error, text, document).in_path("", &path)
    })
}

/// Returns the path of the value for which a decoding failed, by decoding again; empty if it is the whole value.
pub fn path_of<T: DeserializeOwned>(value: RawBsonRef<'_>, error: &bson::error::Error) -> String {
    let Ok(value) = Bson::try_from(value) else {
        return String::new();
    };
    let again = serde_path_to_error::deserialize::<_, T>(bson::Deserializer::new(value));
    let path = again.err().map(|error| text_of(error.path())).unwrap_or_default();
    match missing_field(error) {
        Some(field) if path.is_empty() => field.to_owned(),
        Some(field) => format!("{path}.{field}"),
        None => path,
    }
}

/// Returns the path in the form of the server, such as `reviews.0.author`.
fn text_of(path: &Path) -> String {
    let names = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key: name } | Segment::Enum { variant: name } => Some(name.clone()),
        Segment::Unknown => None,
    });
    names.collect::<Vec<_>>().join(".")
}

/// Returns the field that serde misses, for which it has no path.
fn missing_field(error: &bson::error::Error) -> Option<&str> {
    let (_, rest) = error.message.as_deref()?.split_once("missing field `")?;
    rest.split('`').next()
}

/// Creates the error for a part of a document that cannot be decoded.
pub fn not_decoded(error: bson::error::Error, text: &'static str, document: &RawDocument) -> Error {
    Error::from_driver(ErrorKind::Decode, text, error).of_document(id_of(document), "")
}

/// Returns whether a stored value is a value of `$in`, which refuses undefined and operators, and matches by a regular
/// expression.
pub fn can_be_in(value: &Bson) -> bool {
    !matches!(value, Bson::Undefined | Bson::RegularExpression(_) | Bson::Document(_))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use mongodb::bson::{RawDocumentBuf, doc, rawdoc, serialize_to_document};
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)] // only decoded
    struct Product {
        name: String,
        reviews: Vec<Review>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)] // only decoded
    struct Review {
        stars: i32,
        of: Option<Author>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)] // only decoded
    enum Author {
        Guest(HashMap<String, i32>),
    }

    #[test]
    fn an_error_has_the_path_of_the_value_and_does_not_print_it() {
        let second = [Bson::from(doc! { "stars": 1 }), doc! { "stars": "secret" }.into()];
        for (stored, path) in [
            (doc! { "name": 7, "reviews": [] }, "name"),
            (doc! { "reviews": [] }, "name"),
            (doc! { "name": "a", "reviews": 7 }, "reviews"),
            (doc! { "name": "a", "reviews": second.to_vec() }, "reviews.1.stars"),
            (doc! { "name": "a", "reviews": [{}] }, "reviews.0.stars"),
            (
                doc! { "name": "a", "reviews": [{ "stars": 1, "of": { "Guest": { "49151": "x" } } }] },
                "reviews.0.of.Guest.49151",
            ),
        ] {
            let stored = RawDocumentBuf::try_from(&stored).unwrap();
            let error = decode::<Product>(&stored, "it cannot be read").unwrap_err();
            assert_eq!((error.kind(), error.field()), (ErrorKind::Decode, Some(path)));
            let entry = error.of_document(7.into(), "document");
            assert_eq!(entry.field(), Some(&*format!("document.{path}")));
            assert_eq!(entry.to_string(), "it cannot be read (field `document`)");
            let logged = serialize_to_document(&entry).unwrap().to_string();
            assert!(!logged.contains(&format!("document.{path}")), "{logged}");
        }
        let whole = decode::<i32>(&rawdoc! {}, "it cannot be read").unwrap_err();
        assert_eq!(whole.field(), None);
        assert_eq!(whole.document_id(), Some(&Bson::Null));
    }
}
