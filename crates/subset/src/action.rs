//! The actions: structs with setters for their options, which run when they are awaited.
//!
//! See [`action`](mongo_patterns_core::action) for sessions, transactions and cancel safety.

mod delete_parent;
mod follow;
mod migrate_existing;
mod migrate_from_embedded;
mod migrate_layout_from;
mod read;
mod repair;
mod write;

pub use delete_parent::DeleteParent;
pub use follow::Follow;
pub use migrate_existing::MigrateExisting;
pub use migrate_from_embedded::MigrateFromEmbedded;
pub use migrate_layout_from::MigrateLayoutFrom;
pub use mongo_patterns_core::action::{Find, Read, Write};
pub use mongo_patterns_core::verify::{Repair, Verify};
pub use repair::{Refresh, RefreshAll};
