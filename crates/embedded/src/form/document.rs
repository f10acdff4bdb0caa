//! The conversion of parents and children to and from their stored form.

use std::collections::HashSet;

use mongo_patterns_core::array::Encoded;
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result, size, stored};
use mongodb::bson;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::child_id::ChildId;
use crate::settings::Settings;

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Document> {
    match Encoded::one(value)?.to_bson()? {
        Bson::Document(document) => Ok(document),
        _ => Err(Error::new(
            ErrorKind::Encode,
            "parents and children must be written as documents, nothing was stored: use a type with named fields",
        )),
    }
}

/// Encodes a parent to insert.
pub(crate) fn encode_parent<P: Serialize>(settings: &Settings, parent: &P) -> Result<RawDocumentBuf> {
    let mut parent = encode(parent)?;
    check_parent(settings, &mut parent)?;
    let parent = RawDocumentBuf::try_from(&parent).map_err(|error| {
        let message = "the parent cannot be written as BSON, nothing was stored";
        Error::from_driver(ErrorKind::Encode, message, error)
    })?;
    size::check(&parent)?;
    Ok(parent)
}

/// Checks a parent before it is inserted: its `_id`, if it has one, and its children. Adds an empty array if there is none.
pub(crate) fn check_parent(settings: &Settings, parent: &mut Document) -> Result<()> {
    if let Some(id) = parent.get("_id") {
        DocumentId::new(id.clone())?;
    }
    let version = settings.version();
    if parent.contains_key(version.as_str()) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the parent has the field `{version}`, which marks a parent that is migrated to a subset, nothing was stored: leave it out"
            ),
        ));
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
        return Err(limit_reached(settings));
    }
    let mut forms = HashSet::new();
    for child in children {
        let Bson::Document(child) = child else {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "a child is not a document, nothing was stored: use a type with named fields",
            ));
        };
        if !forms.insert(ChildId::of_child(settings, child)?.form().to_owned()) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "two children of the parent have the same id, nothing was stored: give each its own",
            ));
        }
    }
    Ok(())
}

/// The error of a parent that has as many children as it may.
pub(crate) fn limit_reached(settings: &Settings) -> Error {
    Error::new(
        ErrorKind::LimitReached,
        format!(
            "a parent may have {} children, and this would be one more, nothing was stored: remove one, or use a pattern for longer lists",
            settings.max_children
        ),
    )
}

/// Returns whether a parent has a child with this id. The reply to a retried command is the whole parent, without the
/// projection.
pub(crate) fn has_child(settings: &Settings, parent: &RawDocument, id: &ChildId) -> bool {
    let children = parent.get_array(settings.children.as_str()).into_iter().flatten();
    let children = children.filter_map(|child| child.ok()?.as_document());
    let mut ids = children.filter_map(|child| child.get(settings.child_id.as_str()).ok()?);
    ids.any(|stored| Bson::try_from(stored).is_ok_and(|stored| id.is(&stored)))
}

/// Decodes a parent as the repository's type.
pub(crate) fn decode_parent<P: DeserializeOwned>(settings: &Settings, document: &RawDocument) -> Result<P> {
    check_not_migrated(settings, document)?;
    let text =
        "a stored parent cannot be read as the repository's parent type: change the type, or correct the document";
    stored::decode(document, text)
}

/// Refuses a parent that a subset repository manages, or whose migration to one has begun.
pub(crate) fn check_not_migrated(settings: &Settings, parent: &RawDocument) -> Result<()> {
    let version = settings.version();
    if !matches!(parent.get(version.as_str()), Ok(Some(_))) {
        return Ok(());
    }
    let message = format!(
        "the parent has the field `{version}`, so it is migrated to a subset, or its migration has begun, nothing was changed: read and write its children by the subset repository"
    );
    Err(Error::new(ErrorKind::NewerVersion, message).of_document(stored::id_of(parent), version.as_str()))
}

/// Decodes the one child of a parent that was read without its others.
pub(crate) fn decode_child<C: DeserializeOwned>(settings: &Settings, parent: &RawDocument) -> Result<Option<C>> {
    check_not_migrated(settings, parent)?;
    let field = settings.children.as_str();
    let children = parent.get_array(field).ok();
    let child = children.and_then(|children| children.get_document(0).ok());
    let Some(child) = child else { return Ok(None) };
    let text = "a stored child cannot be read as the repository's child type: change the type, or correct the child";
    let decoded = bson::deserialize_from_slice(child.as_bytes()).map(Some);
    decoded.map_err(|error| {
        let path = stored::path_of::<C>(RawBsonRef::Document(child), &error);
        stored::not_decoded(error, text, parent).in_path(field, &path)
    })
}
