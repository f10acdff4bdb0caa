//! The results of the calls.

use mongo_patterns_core::{Error, ErrorKind, InvalidDocuments};
use mongodb::bson::Bson;
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

/// The result of an insert.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inserted {
    /// The `_id` of the document: a new object id where the document had none.
    pub id: Bson,
    /// The number of its elements in the array.
    pub inline: u64,
    /// The number of its elements in overflow documents.
    pub overflow: u64,
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

/// The result of a delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// Whether the main document existed.
    pub found: bool,
    /// The number of deleted overflow documents.
    pub overflow_documents: u64,
}

/// The elements of a list after a rebalance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebalanced {
    /// The number of elements in the array of the main document.
    pub inline: u64,
    /// The number of elements in overflow documents.
    pub overflow: u64,
    /// Whether the rebalance changed anything.
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
