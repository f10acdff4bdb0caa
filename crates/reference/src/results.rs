//! The results of the calls.

mod migrated;

pub use self::migrated::Migrated;

use mongo_patterns_core::{Error, ErrorKind};

/// The result of an update of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdatedSource {
    /// The version of the source after the update. It does not change when the update cannot change a copied field.
    pub version: u64,
    /// The number of documents whose copies this call updated, once for each reference of a document. Another call may have
    /// updated others.
    pub copies: u64,
}

/// The result of a deletion of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedSource {
    /// Whether this call deleted the source. `false` is no error: a retry of a deletion that took effect finds nothing.
    pub found: bool,
    /// The number of documents whose copies were marked or removed, once for each reference of a document.
    pub copies: u64,
}

/// What happens to the references to a source that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnReferences {
    /// A source that is referred to is not deleted: the error is [`Referenced`](mongo_patterns_core::ErrorKind::Referenced).
    #[default]
    Restrict,
    /// The copies stay, with `deleted: true`.
    KeepCopy,
    /// The references are removed.
    Clear,
}

/// Returns the error of a call for a source that does not exist.
pub(crate) fn no_source() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "a source of the references does not exist, nothing was changed: insert it first, or refer to another one",
    )
}

/// Returns the error of a call on a document that does not exist.
pub(crate) fn no_document() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the document does not exist, nothing was changed: insert it first",
    )
}
