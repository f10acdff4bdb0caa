//! Documents and elements as they are read.

use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::raw::{CString, RawArrayBuf};
use mongodb::bson::{self, Bson, RawBsonRef, RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::settings::Settings;
use crate::write::push::is_true;

/// A main document, without its extras.
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// if let Some(found) = books.get(2).await? {
///     println!("{}, and more: {}", found.document, found.has_extras);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredDocument<D> {
    /// The document, with up to a threshold of elements in its array.
    pub document: D,
    /// Whether there are more elements in the extras.
    pub has_extras: bool,
}

/// Whether a main document is flagged.
pub(crate) fn is_flagged(settings: &Settings, main: &RawDocument) -> bool {
    is_true(main, settings.flag.as_str())
}

/// The elements of an array field; none where it is missing.
///
/// # Errors
/// [`Corrupt`](ErrorKind::Corrupt) when it is not an array.
pub(crate) fn elements_of<'d>(
    document: &'d RawDocument,
    field: &str,
) -> Result<impl Iterator<Item = RawBsonRef<'d>> + 'd> {
    let corrupt = || {
        Error::corrupt(
            id_of(document),
            field,
            "the elements of a document are not an array: correct it by hand",
        )
    };
    let array = match document.get(field) {
        Ok(None | Some(RawBsonRef::Null | RawBsonRef::Undefined)) => None,
        Ok(Some(RawBsonRef::Array(array))) => Some(array),
        _ => return Err(corrupt()),
    };
    Ok(array.into_iter().flatten().map_while(std::result::Result::ok))
}

/// A main document as the type of the repository.
pub(crate) fn decode_main<D: DeserializeOwned>(settings: &Settings, main: &RawDocument) -> Result<D> {
    let array = settings.array.as_str();
    let field = match main.get(array) {
        Ok(None | Some(RawBsonRef::Array(_))) => "",
        _ => array,
    };
    bson::deserialize_from_slice(main.as_bytes()).map_err(|error| {
        Error::from_driver(
            ErrorKind::Decode,
            "a stored document cannot be read as the repository's document type: change the type, or mend the document",
            error.into(),
        )
        .at(id_of(main), field)
    })
}

/// The elements of a stored document, some of them skipped.
pub(crate) fn decode_elements<E: DeserializeOwned>(document: &RawDocument, field: &str, skip: usize) -> Result<Vec<E>> {
    let elements = elements_of(document, field)?.enumerate().skip(skip);
    let decoded = elements.map(|(index, element)| {
        decode(element).map_err(|error| {
            Error::from_driver(
                ErrorKind::Decode,
                "a stored element cannot be read as the repository's element type: change the type, or mend the element",
                error.into(),
            )
            .at(id_of(document), format!("{field}.{index}"))
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

/// A main document with all elements in its array.
pub(crate) fn whole(settings: &Settings, main: &RawDocument, extras: &[RawDocumentBuf]) -> Result<RawDocumentBuf> {
    let field = settings.array.as_str();
    let mut array = RawArrayBuf::new();
    for element in elements_of(main, field)? {
        array.push(element);
    }
    for document in extras {
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

pub(crate) fn id_of(document: &RawDocument) -> Bson {
    let id = document.get("_id").ok().flatten();
    id.and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null)
}
