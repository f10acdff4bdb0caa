//! Moves between references, where each child is a document that names its parent, and embedded children. The server
//! does the work, and nothing but the ids of parents passes through the client.
//!
//! A move keeps no record of how far it is: what is done can be seen. A parent that has its children is passed over, and
//! a document that is there stays.

pub(crate) mod embedding;
pub(crate) mod from_references;
pub(crate) mod referencing;
pub(crate) mod run;
pub(crate) mod to_references;

use mongo_patterns_core::PlannedCommand;

/// What a move would do, and every command that it would send; from
/// [`MigrateFromReferences::plan`](crate::action::MigrateFromReferences::plan) and
/// [`MigrateToReferences::plan`](crate::action::MigrateToReferences::plan).
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     addresses: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let plan = patrons.migrate_from_references(&addresses, "patron_id").plan().await?;
/// for command in plan.commands.iter().filter(|command| command.writes) {
///     println!("{}: {}", command.purpose, command.command);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MigrationPlan {
    /// How many children it would move.
    pub children: u64,
    /// How many documents of the source refer to no parent, and stay; [`orphans`](crate::EmbeddedRepository::orphans) lists them.
    pub orphans: u64,
    /// The commands, in order, as they go to the database of both collections, without the `getMore` of cursors.
    pub commands: Vec<PlannedCommand>,
}

/// What a move did.
///
/// ```no_run
/// # use mongo_patterns_embedded::EmbeddedRepository;
/// # use mongodb::{Collection, bson::Document};
/// # async fn f(
/// #     patrons: EmbeddedRepository<Document, Document>,
/// #     addresses: Collection<Document>,
/// # ) -> mongo_patterns_core::Result<()> {
/// let moved = patrons.migrate_from_references(&addresses, "patron_id").await?;
/// println!("{} addresses of {} patrons, {} of none", moved.children, moved.parents, moved.orphans);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// How many parents there are.
    pub parents: u64,
    /// How many children they have, as counted on both sides at the end.
    pub children: u64,
    /// How many documents of the source were not moved, since there is no parent of the `_id` that they refer to;
    /// [`orphans`](crate::EmbeddedRepository::orphans) lists them.
    pub orphans: u64,
}
