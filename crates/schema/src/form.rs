//! Documents with their versions.

use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::size;
use mongo_patterns_core::stored::not_decoded;
use mongodb::bson::raw::CStr;
use mongodb::bson::{self, RawBsonRef, cstr};

use crate::prelude::*;
use crate::steps::{Convert, Converted};

/// Returns the version of a stored document. `None` if the field has another value than a version.
pub(crate) fn version_of(field: &FieldName, document: &RawDocument) -> Option<u32> {
    match document.get(field.as_str()).ok()? {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => Some(1),
        Some(value) => {
            let version = i32::try_from(stored_integer(value)?).ok()?;
            u32::try_from(version).ok().filter(|version| *version > 0)
        }
    }
}

/// Returns the version of a stored document that this program can read.
///
/// # Errors
/// [`NewerVersion`](ErrorKind::NewerVersion), [`NotMigrated`](ErrorKind::NotMigrated) for a version without a step, and
/// [`Corrupt`](ErrorKind::Corrupt).
pub(crate) fn known_version_of(settings: &Settings, document: &RawDocument) -> Result<u32> {
    let (field, steps) = (&settings.version, &settings.steps);
    let error = |kind, text: String| Err(Error::new(kind, text).at(id_of(document), field.as_str()));
    match version_of(field, document) {
        None => error(
            ErrorKind::Corrupt,
            format!(
                "the field `{field}` of a stored document is no version, which is a whole number from 1, nothing was changed: correct the document by hand"
            ),
        ),
        Some(version) if version > steps.newest() => error(
            ErrorKind::NewerVersion,
            format!(
                "the stored document has version {version}, and this release knows versions up to {}, nothing was changed: call it in the later release",
                steps.newest()
            ),
        ),
        Some(version) if version < steps.oldest() => error(
            ErrorKind::NotMigrated,
            format!(
                "the stored document has version {version}, for which this release has no step, nothing was changed: give the builder the steps from {version} on, and migrate"
            ),
        ),
        Some(version) => Ok(version),
    }
}

/// Checks a document of the caller, and returns it with the newest version.
///
/// # Errors
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for an invalid `_id` and for another version, and
/// [`TooLarge`](ErrorKind::TooLarge).
pub(crate) fn checked(settings: &Settings, document: &RawDocument) -> Result<RawDocumentBuf> {
    let newest = settings.steps.newest();
    if let id @ (Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined) = id_of(document) {
        DocumentId::new(id)?;
    }
    let field = document.get(settings.version.as_str()).ok().flatten();
    if field.is_some_and(|value| value != RawBsonRef::Null) && version_of(&settings.version, document) != Some(newest) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the field `{}` of the document is not {newest}, the version of its type, nothing was stored: leave it out, the repository sets it",
                settings.version
            ),
        ));
    }
    let version = with_version(document, &settings.version, newest, document.iter().flatten());
    size::check(&version)?;
    Ok(version)
}

/// Converts a document by the typed step of its version.
///
/// # Errors
/// Those of the step, with its number and the document.
pub(crate) fn convert(
    settings: &Settings,
    step: &Convert,
    version: u32,
    stored: &RawDocument,
) -> Result<RawDocumentBuf> {
    let converted = step(stored).and_then(|converted| joined(&settings.version, version + 1, stored, &converted));
    converted.map_err(|error| error.at(id_of(stored), "").with_step(version.to_string()))
}

/// Returns what a step returned, and the fields that its old type does not have.
fn joined(field: &FieldName, version: u32, stored: &RawDocument, converted: &Converted) -> Result<RawDocumentBuf> {
    let Converted { known, new } = converted;
    if new.get("_id").ok().flatten().is_some() && id_of(new) != id_of(stored) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "a step returned a document with another `_id`, nothing was changed: keep the `_id`, or leave it out",
        ));
    }
    let has = |document: &RawDocumentBuf, name: &CStr| document.get(name.as_str()).is_ok_and(|value| value.is_some());
    let others = stored
        .iter()
        .flatten()
        .filter(|(name, _)| !has(known, name) && !has(new, name));
    let document = with_version(stored, field, version, new.iter().flatten().chain(others));
    size::check(&document)?;
    Ok(document)
}

/// Returns a document with the `_id` of another one, a version, and these fields.
fn with_version<'f>(
    of: &RawDocument,
    field: &FieldName,
    version: u32,
    fields: impl Iterator<Item = (&'f CStr, RawBsonRef<'f>)>,
) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    if let Ok(Some(id)) = of.get("_id") {
        document.append(cstr!("_id"), id);
    }
    if let Ok(field) = <&CStr>::try_from(field.as_str()) {
        document.append(field, i32::try_from(version).unwrap_or(i32::MAX));
    }
    for (name, value) in fields {
        if name.as_str() != "_id" && name.as_str() != field.as_str() {
            document.append(name, value);
        }
    }
    document
}

/// Decodes a document of the newest version.
///
/// # Errors
/// [`Decode`](ErrorKind::Decode).
pub(crate) fn decode<D: DeserializeOwned>(document: &RawDocument) -> Result<D> {
    let text = "a stored document cannot be read as the repository's type: change the type, or correct the document";
    bson::deserialize_from_slice(document.as_bytes()).map_err(|error| not_decoded(error, text, document, ""))
}
