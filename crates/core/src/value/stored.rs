//! Reads of stored documents, in which every field can have any value or be missing.

use mongodb::bson::{self, Bson, RawBsonRef, RawDocument};
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};

/// Returns the value of a field.
pub fn value(document: &RawDocument, field: impl AsRef<str>) -> Option<Bson> {
    document.get(field.as_ref()).ok()??.try_into().ok()
}

/// Returns the `_id` of a document; null if it has none.
pub fn id_of(document: &RawDocument) -> Bson {
    value(document, "_id").unwrap_or(Bson::Null)
}

/// Decodes a document. If its array field has another value than an array, the error names that field.
///
/// # Errors
/// [`Decode`](ErrorKind::Decode) with this text.
pub fn decode<T: DeserializeOwned>(document: &RawDocument, array: &str, text: &'static str) -> Result<T> {
    let field = match document.get(array) {
        Ok(None | Some(RawBsonRef::Array(_))) => "",
        _ => array,
    };
    bson::deserialize_from_slice(document.as_bytes()).map_err(|error| not_decoded(error, text, document, field))
}

/// Creates the error for a part of a document that cannot be decoded.
pub fn not_decoded(
    error: bson::error::Error,
    text: &'static str,
    document: &RawDocument,
    field: impl Into<String>,
) -> Error {
    Error::from_driver(ErrorKind::Decode, text, error).of_document(id_of(document), field)
}

/// Returns whether a stored value is a value of `$in`, which refuses undefined and operators, and matches by a regular
/// expression.
pub fn can_be_in(value: &Bson) -> bool {
    !matches!(value, Bson::Undefined | Bson::RegularExpression(_) | Bson::Document(_))
}
