//! The decoding of stored documents.

use mongo_patterns_core::stored::not_decoded;
use mongodb::bson;

use crate::prelude::*;

/// Decodes a document.
///
/// # Errors
/// [`Decode`](ErrorKind::Decode).
pub(crate) fn decode<D: DeserializeOwned>(document: &RawDocument) -> Result<D> {
    let text =
        "a stored document cannot be read as the type of the documents: change the type, or correct the document";
    bson::deserialize_from_slice(document.as_bytes()).map_err(|error| not_decoded(error, text, document, ""))
}
