//! The results of the calls.

use mongodb::bson::{Bson, DateTime};

pub(crate) const NOT_DECODED: &str =
    "a stored document cannot be read as the type of the documents: change the type, or correct the document";

/// A document that a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found<D> {
    /// The document.
    pub document: D,
    /// Whether it is in the archive.
    pub is_archived: bool,
}

impl<D> Found<D> {
    /// Creates it, for example in a fake of an archive.
    pub fn new(document: D, is_archived: bool) -> Self {
        Self { document, is_archived }
    }
}

/// The documents that a run would archive; returned by [`due`](crate::Archive::due).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due {
    /// The number of documents.
    pub documents: u64,
    /// The time of the oldest one.
    pub oldest: Option<DateTime>,
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// Whether the document was not in the archive or trash, but in the collection, as after a restore that took effect.
    pub already_there: bool,
}

/// A deleted document.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrashEntry<D> {
    /// The document.
    pub document: D,
    /// The time of the deletion, by the clock of the client.
    pub deleted_at: DateTime,
    /// Who deleted it, if the deletion had a value [for it](crate::action::Delete::by).
    pub deleted_by: Option<Bson>,
}
