//! The documents that cannot be migrated.

use mongo_patterns_core::error::Remedy;
use mongo_patterns_core::migration::refuse;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::Document;

/// When documents were counted that cannot be migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before the first write.
    Before,
    /// After the last chunk.
    After,
}

/// Fails when documents cannot be migrated, for the first of the reasons, with a document.
pub(super) fn refuse_invalid(counts: &Document, when: When) -> Result<()> {
    for (reason, kind, what) in PROBLEMS {
        let name = format!("{reason}One");
        let example = counts.get_document(&name).cloned().unwrap_or_default();
        let mut counts = counts.clone();
        counts.insert(name, example.get("id"));
        let field = example.get_str("field").unwrap_or_default();
        refuse(&counts, reason, kind, field, what)
            .map_err(|error| error_at(when, error).with_remedy(Remedy::SkipInvalid))?;
    }
    Ok(())
}

/// Adapts the error about a document that cannot be migrated, which reports that nothing was written.
fn error_at(when: When, error: Error) -> Error {
    if when == When::Before {
        return error;
    }
    let changed = Error::new(
        ErrorKind::CountMismatch,
        "another program has changed references concurrently, or deleted their sources, so that a document cannot be migrated, the others are: see document_id(), then migrate again, which reports the problem",
    );
    match (error.document_id(), error.field()) {
        (Some(id), Some(field)) => changed.of_document(id.clone(), field),
        _ => changed,
    }
}

/// The problems of documents, in the order in which they are checked, with the kinds and the texts of their errors.
const PROBLEMS: [(&str, ErrorKind, &str); 11] = [
    (
        "no_array",
        ErrorKind::Corrupt,
        "documents have a value other than an array in the field of an array of references",
    ),
    (
        "not_an_id",
        ErrorKind::InvalidItemId,
        "documents have a reference that is null, or of another type that an `_id` cannot have",
    ),
    (
        "twice",
        ErrorKind::InvalidItemId,
        "documents have an array that refers to one source twice: store one element for a source, for example with a quantity",
    ),
    (
        "other_value",
        ErrorKind::TargetNotEmpty,
        "documents have another value than references in the reference field, although the ids are in another field",
    ),
    (
        "other_reference",
        ErrorKind::TargetNotEmpty,
        "documents refer to other sources in the reference field than in the field of the ids: remove either",
    ),
    (
        "reserved_field",
        ErrorKind::InvalidItemId,
        "documents have a reference by the source key with a field that the pattern writes itself, which would be lost: rename its `_id`, `deleted` or version, or use another name with version_field(..)",
    ),
    (
        "db_ref",
        ErrorKind::InvalidItemId,
        "documents have a DBRef as a reference: convert it by an update with a pipeline before the migration",
    ),
    (
        "without_id",
        ErrorKind::InvalidItemId,
        "documents have a reference that is a document without an `_id`, such as one with the id in another field: rename this field to `_id` before the migration",
    ),
    (
        "source_missing",
        ErrorKind::NotFound,
        "documents refer to a source by an `_id` or a source key that no source has: insert it, or remove the reference; if they name sources by another unique field, set it with source_key(..)",
    ),
    (
        "source_version",
        ErrorKind::Corrupt,
        "documents refer to a source whose version is not an integer from 0: correct it, or use another name with version_field(..)",
    ),
    (
        "too_large",
        ErrorKind::TooLarge,
        "documents would exceed MongoDB's limit of 16 MiB with their copies: copy fewer fields",
    ),
];
