//! The results of the calls of a repository.

use serde::Serialize;

/// How many documents have a version; returned by [`versions`](crate::SchemaRepository::versions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VersionCount {
    /// The version. `None` for documents whose version field has another value than a version.
    pub version: Option<u32>,
    /// The number of documents.
    pub documents: u64,
}

impl VersionCount {
    /// Creates it, for example in a fake of a repository.
    #[must_use]
    pub fn new(version: Option<u32>, documents: u64) -> Self {
        Self { version, documents }
    }
}

/// The result of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// How many documents were of an older version when the migration came to them.
    pub documents: u64,
}
