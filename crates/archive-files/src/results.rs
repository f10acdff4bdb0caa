//! The results of the calls.

use mongodb::bson::DateTime;
use serde::Serialize;

/// A file with archived documents; returned by [`files`](crate::FileArchive::files).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArchiveFile {
    /// Its name in the store, after the prefix.
    pub name: String,
    /// The number of its documents.
    pub documents: u64,
    /// Its size.
    pub bytes: u64,
    /// The age of its oldest document.
    pub oldest: DateTime,
    /// The age of its newest document.
    pub newest: DateTime,
    /// The time at which it was written, by the clock of the client.
    pub archived_at: DateTime,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}
