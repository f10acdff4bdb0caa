//! The actions: structs with setters for their options, which run when they are awaited.
//!
//! See [`action`](mongo_patterns_core::action) for sessions, transactions and cancel safety.

mod maintain;
mod read;
mod write;

pub use maintain::MigrateExisting;
pub use mongo_patterns_core::action::Read;
pub use mongo_patterns_core::verify::{Repair, Verify};
pub use write::{End, Insert, Replace, Update};
