//! Parents and children as they are written and read.

use std::collections::HashSet;

use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result};
use mongodb::bson::{self, Bson, Document, RawBsonRef, RawDocument};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ids::ChildId;
use crate::settings::Settings;

/// A value that is to be stored as a document.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Document> {
    match Encoded::one(value)?.to_bson()? {
        Bson::Document(document) => Ok(document),
        _ => Err(Error::new(
            ErrorKind::Encode,
            "parents and children must be written as documents, nothing was stored: use a type with named fields",
        )),
    }
}

/// Checks a parent that is to be stored: its `_id`, where it has one, and its children. One without an array gets an
/// empty one, as [`add_child`](crate::EmbeddedRepository::add_child) takes it.
pub(crate) fn check_parent(settings: &Settings, parent: &mut Document) -> Result<()> {
    if let Some(id) = parent.get("_id") {
        DocumentId::new(id.clone())?;
    }
    let children = match parent.get(settings.children.as_str()) {
        Some(Bson::Array(children)) => children,
        Some(_) => {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "the field `{}` of the parent is not an array, nothing was stored: leave it out, or write an empty one, for no children",
                    settings.children
                ),
            ));
        }
        None => {
            parent.insert(settings.children.as_str(), Bson::Array(Vec::new()));
            return Ok(());
        }
    };
    if children.len() > settings.max_children as usize {
        return Err(full(settings));
    }
    let mut forms = HashSet::new();
    for child in children {
        let Bson::Document(child) = child else {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "a child is no document, nothing was stored: use a type with named fields",
            ));
        };
        if !forms.insert(ChildId::of_child(settings, child)?.form().to_vec()) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "two children of the parent have the same id, nothing was stored: give each its own",
            ));
        }
    }
    Ok(())
}

pub(crate) fn full(settings: &Settings) -> Error {
    Error::new(
        ErrorKind::LimitReached,
        format!(
            "a parent may have {} children, and this is one more, nothing was stored: remove one, or use a pattern for longer lists",
            settings.max_children
        ),
    )
}

/// A parent as the repository's type.
pub(crate) fn decode_parent<P: DeserializeOwned>(settings: &Settings, document: &RawDocument) -> Result<P> {
    let children = settings.children.as_str();
    let field = match document.get(children) {
        Ok(None | Some(RawBsonRef::Array(_))) => "",
        _ => children,
    };
    bson::deserialize_from_slice(document.as_bytes()).map_err(|error| {
        Error::from_driver(
            ErrorKind::Decode,
            "a stored parent cannot be read as the repository's parent type: change the type, or mend the document",
            error.into(),
        )
        .at(id_of(document), field)
    })
}

/// The one child of a parent that was read without the others.
pub(crate) fn decode_child<C: DeserializeOwned>(settings: &Settings, parent: &RawDocument) -> Result<Option<C>> {
    let children = parent.get_array(settings.children.as_str()).ok();
    let child = children.and_then(|children| children.get_document(0).ok());
    let Some(child) = child else { return Ok(None) };
    bson::deserialize_from_slice(child.as_bytes())
        .map(Some)
        .map_err(|error| {
            Error::from_driver(
                ErrorKind::Decode,
                "a stored child cannot be read as the repository's child type: change the type, or mend the child",
                error.into(),
            )
            .at(id_of(parent), settings.children.as_str())
        })
}

fn id_of(document: &RawDocument) -> Bson {
    let id = document.get("_id").ok().flatten();
    id.and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null)
}
