//! The results of the calls.

use crate::prelude::*;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigratedExisting {
    /// The number of rewritten main documents, with their overflow documents.
    pub documents: u64,
    /// The number of overflow documents that were written for them.
    pub overflow_documents: u64,
    /// The lists that were not migrated because they are invalid.
    pub skipped: InvalidLists,
}

/// How many lists cannot be migrated, by their reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidLists {
    /// The number of main documents whose array field is not an array; listed as `no_array`.
    pub no_array: u64,
    /// The number of lists with an overflow document whose elements are not an array; listed as `no_elements`.
    pub no_elements: u64,
    /// The number of lists with an overflow document to delete that has fields of your own; listed as `own_fields`.
    pub own_fields: u64,
    /// The number of lists with an overflow document that would exceed 16 MiB; listed as `too_large`.
    pub too_large: u64,
}

impl InvalidLists {
    /// Returns the number of all invalid lists.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, lists)| lists).sum()
    }

    /// Returns the reasons as they are listed, with the numbers of lists.
    #[must_use]
    pub fn by_reason(&self) -> [(&'static str, u64); 4] {
        [
            ("no_array", self.no_array),
            ("no_elements", self.no_elements),
            ("own_fields", self.own_fields),
            ("too_large", self.too_large),
        ]
    }
}

/// Returns the error of a call on a document that does not exist.
pub(crate) fn not_found() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the document does not exist, nothing was changed: insert it first",
    )
}
