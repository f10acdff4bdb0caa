//! The results of the calls.

use mongo_patterns_core::InvalidDocuments;
use mongodb::bson::DateTime;
use serde::Serialize;

/// A document, and the interval in which it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interval<D> {
    /// The time from which it is valid, as [`expecting`](crate::action::Update::expecting) takes it.
    pub valid_from: DateTime,
    /// The time to which it is valid, exclusive. `None` if it has no end. The end of the current interval is in the future,
    /// when a later one is scheduled.
    pub valid_to: Option<DateTime>,
    /// The document.
    pub document: D,
}

/// An interval that a write has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Begun {
    /// The time from which the document is valid, and to which the one before it was.
    pub valid_from: DateTime,
}

/// The result of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// Whether a document was valid. `false` is no error: a retry of an end that took effect finds nothing.
    pub found: bool,
    /// The time to which it was valid.
    pub valid_to: Option<DateTime>,
}

/// The result of a migration of existing documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// The number of documents that were corrected.
    pub documents: u64,
    /// What was wrong in them.
    pub corrections: Corrections,
    /// The documents that were [skipped](crate::action::MigrateExisting::skip_invalid), by their reason.
    pub skipped: InvalidDocuments,
    /// The names of the created indexes.
    pub created_indexes: Vec<String>,
}

/// How many documents a migration corrects, by the kind of the correction. A document can have several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Corrections {
    /// Documents without a start, which get one.
    pub starts: u64,
    /// Documents without an end, or without one before the next interval, which get one.
    pub ends: u64,
    /// Documents whose mark of a valid document is missing, or does not fit their interval.
    pub marks: u64,
}
