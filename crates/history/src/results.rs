//! The results of the calls.

use mongo_patterns_core::{Error, ErrorKind};
use mongodb::bson::{Bson, DateTime, Document};
use serde::Serialize;

/// A revision of a document that a write has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// Its number.
    pub revision: u64,
    /// Its time, which is after the time of the previous revision.
    pub time: DateTime,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedDocument {
    /// Whether the document existed. `false` is no error: a retry of a deletion that took effect finds nothing.
    pub found: bool,
    /// The number of the revision that records the deletion, if the document existed.
    pub revision: Option<u64>,
}

/// The result of an update of many documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdatedMany {
    /// The number of documents that matched the filter at first.
    pub matched: u64,
    /// The number of updated documents. The others did not match any more.
    pub modified: u64,
}

/// A current document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Current<D> {
    /// The number of its revision, as [`expecting`](crate::action::Update::expecting) takes it. 0 if it has none yet.
    pub revision: u64,
    /// The time of its revision. `None` if it has none yet.
    pub time: Option<DateTime>,
    /// The document.
    pub document: D,
}

/// A revision of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Revision<D> {
    /// Its number, from 1.
    pub revision: u64,
    /// Its time.
    pub time: DateTime,
    /// The document as it was. `None` for the revision of a deletion.
    pub document: Option<D>,
    /// The values of the [fields that describe the change](crate::HistoryRepositoryBuilder::change_fields).
    pub change: Document,
}

/// The differences between two revisions of a document.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Diff {
    /// The fields that differ, in the order of the first revision. Empty if the revisions have the same content.
    pub changes: Vec<FieldChange>,
}

/// A field that differs between two revisions.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct FieldChange {
    /// The path of the field, such as `owner.name`, or `itemsInsured.2` for the third element of an array.
    pub path: String,
    /// Its value in the first revision. `None` if the first one does not have it.
    pub before: Option<Bson>,
    /// Its value in the second revision. `None` if the second one does not have it.
    pub after: Option<Bson>,
}

mongo_patterns_core::redacted_debug!(
    FieldChange,
    |change| "added" = change.before.is_none(),
    "removed" = change.after.is_none()
);

/// The result of a migration of existing collections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// The names of the created indexes.
    pub created_indexes: Vec<String>,
    /// The number of current documents that got a number or a time.
    pub documents: u64,
    /// The number of deleted revisions that were stored twice.
    pub removed_duplicates: u64,
}

/// The error of a revision that is not stored.
pub(crate) fn no_revision() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the document has no such revision: it never had it, or the revision was deleted",
    )
}

/// Returns the error of a call on a document that does not exist.
pub(crate) fn not_found() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the document does not exist, nothing was changed: insert it first",
    )
}
