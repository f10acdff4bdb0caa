//! The results of the calls.

use mongo_patterns_core::{Error, ErrorKind, InvalidDocuments};
use serde::Serialize;

/// A main document, without its overflow documents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredDocument<D> {
    /// The document, with at most the threshold of elements in its array.
    pub document: D,
    /// Whether the list continues in overflow documents.
    pub has_extras: bool,
}

/// Where a push stored its element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pushed {
    /// In the array of the main document.
    Inline,
    /// In an overflow document.
    Overflow,
    /// Nowhere, because the list has an equal element. Only [`push_unique`](crate::OutlierRepository::push_unique)
    /// returns this.
    AlreadyThere,
}

/// Where a batch stored its elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushedMany {
    /// The number of elements in the array of the main document: the first ones.
    pub inline: u64,
    /// The number of elements in overflow documents.
    pub overflow: u64,
}

/// The number of elements of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The number of elements in the array of the main document.
    pub inline: u64,
    /// The number of elements in overflow documents.
    pub overflow: u64,
}

impl Counts {
    /// Returns the number of all elements.
    pub fn total(self) -> u64 {
        self.inline + self.overflow
    }
}

/// The elements of a list after a refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refreshed {
    /// The number of elements in the array of the main document.
    pub inline: u64,
    /// The number of elements in overflow documents.
    pub overflow: u64,
    /// Whether the refresh changed anything.
    pub modified: bool,
}

/// The result of a migration of existing documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// The number of rewritten main documents, with their overflow documents.
    pub documents: u64,
    /// The number of overflow documents that were written for them.
    pub overflow_documents: u64,
    /// The lists that were [skipped](crate::action::MigrateExisting::skip_invalid) because they are invalid.
    pub skipped: InvalidDocuments,
}

/// Returns the error of a call on a document that does not exist.
pub(crate) fn not_found() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the document does not exist, nothing was changed: insert it first",
    )
}
