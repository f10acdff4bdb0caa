//! The results of the calls.

use mongo_patterns_core::InvalidDocuments;
use serde::Serialize;

/// The result of an upsert of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upserted {
    /// Whether the child was added. `false` when it replaced the child with its id.
    pub inserted: bool,
}

/// The result of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// How many children were migrated, as counted on both sides at the end.
    pub children: u64,
    /// How many parents have the array now, with children or without.
    pub documents: u64,
    /// How many documents of the source were not migrated, because they refer to no parent.
    /// [`orphans`](crate::EmbeddedRepository::orphans) lists them.
    pub orphans: u64,
    /// How many documents of the source were not migrated, because they have no valid id.
    pub skipped: InvalidDocuments,
}
