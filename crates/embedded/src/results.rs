//! The results of the calls.

use mongo_patterns_core::PlannedCommand;
use mongodb::bson::Bson;

/// The result of an insert.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inserted {
    /// The `_id` of the parent: its own, or the ObjectId that the driver generated for one without.
    pub id: Bson,
}

/// The plan of a migration: its size, and every command that it would send.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MigrationPlan {
    /// How many children it would migrate.
    pub children: u64,
    /// How many documents of the source refer to no parent, and stay. [`orphans`](crate::EmbeddedRepository::orphans)
    /// lists them.
    pub orphans: u64,
    /// How many documents the migration would skip, because they have no valid id.
    pub skipped: u64,
    /// The commands, in order, as the database of both collections takes them, without the `getMore` of cursors.
    pub commands: Vec<PlannedCommand>,
}

/// The result of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// How many parents there are.
    pub parents: u64,
    /// How many children they have, as counted on both sides at the end.
    pub children: u64,
    /// How many documents of the source were not migrated, because the parent that they refer to does not exist.
    /// [`orphans`](crate::EmbeddedRepository::orphans) lists them.
    pub orphans: u64,
    /// How many documents of the source were not migrated, because they have no valid id.
    pub skipped: u64,
}
