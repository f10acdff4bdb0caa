//! The results of calls.

use mongo_patterns_core::InvalidDocuments;
use serde::Serialize;

/// The result of an insert of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InsertedChild {
    /// Whether the child is in a subset of its parent.
    pub in_subset: bool,
}

/// The result of an insert of several children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InsertedMany {
    /// The number of inserted children.
    pub children: u64,
    /// The number of their parents.
    pub parents: u64,
}

/// The result of an update or a replacement of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdatedChild {
    /// Whether it changed the child. Always `true` after a [`replace`](crate::SubsetRepository::replace) by a child without
    /// `_id`, unless a field name starts with `$`.
    pub modified: bool,
    /// Whether the child is now in a subset of its parent.
    pub in_subset: bool,
}

/// The result of a refresh of one parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refreshed {
    /// The number of children that are now embedded; a child in several subsets counts in each.
    pub embedded: u64,
}

/// The result of a refresh of all parents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefreshedAll {
    /// The number of parents that other clients wrote concurrently, so that they were refreshed one by one.
    pub rebuilt_individually: u64,
}

/// The result of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// The number of parents whose subsets are correct now.
    pub documents: u64,
    /// The number of embedded children that this call migrated into their collection.
    pub children: u64,
    /// The number of parents that other clients wrote concurrently, so that they were rebuilt one by one.
    pub rebuilt_individually: u64,
    /// The number of children without an existing parent. [`verify`](crate::SubsetRepository::verify) reports the ids of the
    /// parents.
    pub orphans: u64,
    /// The parents that were [skipped](crate::action::MigrateFromEmbedded::skip_invalid) because they, or embedded children,
    /// are invalid.
    pub skipped: InvalidDocuments,
    /// The names of the created indexes.
    pub created_indexes: Vec<String>,
    /// The name of the index of the old order, if this call dropped it.
    pub dropped_index: Option<String>,
    /// Whether this call resumed the migration of an earlier call.
    pub resumed: bool,
}
