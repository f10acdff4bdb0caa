//! The actions: structs with setters for their options, which run when they are awaited.
//!
//! See [`action`](mongo_patterns_core::action) for sessions, transactions and cancel safety.

mod delete;
mod delete_before;
mod follow;
mod insert;
mod migrate_existing;
mod read;
mod repair;
mod replace;
mod restore;
mod revisions;
mod update;
mod update_many;
mod upsert;
mod verify;

pub use delete::Delete;
pub use follow::Follow;
pub use insert::{Insert, InsertMany};
pub use migrate_existing::MigrateExisting;
pub use mongo_patterns_core::action::{Find, Read, Write};
pub use mongo_patterns_core::verify::{Repair, Verify};
pub use replace::Replace;
pub use restore::Restore;
pub use update::Update;
pub use update_many::UpdateMany;
pub use upsert::Upsert;
