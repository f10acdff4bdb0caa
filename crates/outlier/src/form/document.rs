//! Reads stored documents: their fields, their elements, and the types of the repository.

use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::stored::{self, not_decoded};
use mongo_patterns_core::{Error, Result};
use mongodb::bson::raw::{CString, RawArrayBuf};
use mongodb::bson::{self, RawBsonRef, RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::settings::Settings;
pub(crate) use mongo_patterns_core::stored::id_of;

/// Returns whether a field is `true`.
pub(crate) fn is_true(document: &RawDocument, field: &str) -> bool {
    matches!(document.get(field), Ok(Some(RawBsonRef::Boolean(true))))
}

pub(crate) fn integer(document: &RawDocument, field: &str) -> Option<i64> {
    stored_integer(document.get(field).ok().flatten()?)
}

/// Returns the number in a field; 0 where there is none.
pub(crate) fn number(document: &RawDocument, field: &str) -> usize {
    let number = integer(document, field).and_then(|number| number.try_into().ok());
    number.unwrap_or(0)
}

/// Returns whether a main document has the flag.
pub(crate) fn is_flagged(settings: &Settings, main: &RawDocument) -> bool {
    is_true(main, settings.flag.as_str())
}

/// Returns the elements of an array field; none where it is missing.
pub(crate) fn elements_of<'d>(
    document: &'d RawDocument,
    field: &str,
) -> Result<impl Iterator<Item = RawBsonRef<'d>> + 'd> {
    let array = match document.get(field) {
        Ok(None | Some(RawBsonRef::Null | RawBsonRef::Undefined)) => None,
        Ok(Some(RawBsonRef::Array(array))) => Some(array),
        _ => {
            return Err(Error::corrupt(
                id_of(document),
                field,
                "the elements of a document are not an array: correct the field by hand",
            ));
        }
    };
    Ok(array.into_iter().flatten().map_while(std::result::Result::ok))
}

/// Decodes a main document as the document type of the repository.
pub(crate) fn decode_main<D: DeserializeOwned>(main: &RawDocument) -> Result<D> {
    let text =
        "a stored document cannot be read as the repository's document type: change the type, or correct the document";
    stored::decode(main, text)
}

/// Decodes the elements of a stored document, without the first ones.
pub(crate) fn decode_elements<E: DeserializeOwned>(document: &RawDocument, field: &str, skip: usize) -> Result<Vec<E>> {
    let text =
        "a stored element cannot be read as the repository's element type: change the type, or correct the element";
    let elements = elements_of(document, field)?.enumerate().skip(skip);
    let decoded = elements.map(|(index, element)| {
        decode(element).map_err(|error| {
            let (at, path) = (format!("{field}.{index}"), stored::path_of::<E>(element, &error));
            not_decoded(error, text, document).in_path(&at, &path)
        })
    });
    decoded.collect()
}

fn decode<E: DeserializeOwned>(element: RawBsonRef<'_>) -> bson::error::Result<E> {
    match element {
        RawBsonRef::Document(document) => bson::deserialize_from_slice(document.as_bytes()),
        scalar => bson::deserialize_from_bson(scalar.try_into()?),
    }
}

/// Returns a main document with the elements of its overflow documents in its array.
pub(crate) fn whole(settings: &Settings, main: &RawDocument, overflow: &[RawDocumentBuf]) -> Result<RawDocumentBuf> {
    let field = settings.array.as_str();
    let mut array = RawArrayBuf::new();
    for element in elements_of(main, field)? {
        array.push(element);
    }
    for document in overflow {
        for element in elements_of(document, settings.extras.as_str())? {
            array.push(element);
        }
    }
    let mut array = Some(array);
    let mut whole = RawDocumentBuf::new();
    for element in main {
        let (name, value) = element.map_err(mongodb::error::Error::from)?;
        match array.take_if(|_| name.as_str() == field) {
            Some(array) => whole.append(name, array),
            None => whole.append(name, value),
        }
    }
    if let Some(array) = array {
        whole.append(CString::try_from(field).map_err(mongodb::error::Error::from)?, array);
    }
    Ok(whole)
}
