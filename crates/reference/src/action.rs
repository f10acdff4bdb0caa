//! The actions: structs with setters for their options, which run when they are awaited.
//!
//! See [`action`](mongo_patterns_core::action) for sessions, transactions and cancel safety.

mod delete_source;
mod follow;
mod get;
mod migrate_from_references;
mod reference;
mod repair;
mod verify;
mod write;

pub use delete_source::DeleteSource;
pub use follow::Follow;
pub use get::Get;
pub use migrate_from_references::MigrateFromReferences;
pub use mongo_patterns_core::action::{Find, Write};
pub use mongo_patterns_core::verify::Verify;
pub use reference::{AddReference, ClearReference, RemoveReference, SetReference};
pub use repair::RepairReferences;
