//! Documents with their versions.

use mongo_patterns_core::error::{CommandError, duplicate_key};
use mongo_patterns_core::stored::{self, id_of, value};
use mongo_patterns_core::versions::{version_of, with_version};
use mongo_patterns_core::{DocumentId, Error, ErrorKind, Result, size, update};
use mongodb::bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use serde::de::DeserializeOwned;

use crate::settings::Settings;

/// Returns the version of a stored document that this program can read.
pub(crate) fn known_version_of(settings: &Settings, document: &RawDocument) -> Result<u32> {
    let (field, steps) = (&settings.version, &settings.steps);
    let error = |kind, text: String| Err(Error::new(kind, text).of_document(id_of(document), field.as_str()));
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
pub(crate) fn checked(settings: &Settings, document: &RawDocument) -> Result<RawDocumentBuf> {
    let newest = settings.steps.newest();
    if let Some(id) = value(document, "_id") {
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

/// Decodes a document of the newest version.
pub(crate) fn decode<D: DeserializeOwned>(document: &RawDocument) -> Result<D> {
    let text = "a stored document cannot be read as the repository's type: change the type, or correct the document";
    stored::decode(document, text)
}

/// Converts the error of a write.
pub(crate) fn refused(error: CommandError) -> Error {
    match duplicate_key(&error) {
        Some(duplicate) => Error::from_driver(
            ErrorKind::DuplicateKey,
            format!(
                "the unique index `{}` refused the write, which had no effect: use other values",
                duplicate.index.unwrap_or_default()
            ),
            error,
        ),
        None => update::failed(error.into()),
    }
}
