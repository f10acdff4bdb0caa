//! The calls as structs: each has the setters of its options, and is awaited.

mod analyze;
mod contains;
mod count;
mod delete;
mod elements;
mod ensure_indexes;
mod get;
mod get_full;
mod insert;
mod migrate_existing;
mod push;
mod push_many;
mod push_unique;
mod rebalance;
mod remove;
mod repair;
mod verify;

pub use crate::migrate::existing::CommandStream;
pub use analyze::Analyze;
pub use contains::Contains;
pub use count::{Count, Counts};
pub use delete::{Delete, Deleted};
pub use elements::{ElementStream, Elements};
pub use ensure_indexes::EnsureIndexes;
pub use get::Get;
pub use get_full::GetFull;
pub use insert::{Insert, Inserted};
pub use migrate_existing::{MigrateExisting, MigratedExisting};
pub use push::{Push, Pushed};
pub use push_many::{PushMany, PushedMany};
pub use push_unique::PushUnique;
pub use rebalance::{Rebalance, Rebalanced};
pub use remove::{Remove, Removed};
pub use repair::{Repair, Repaired, RepairedStream, Unrepaired};
pub use verify::{FindingStream, Verify};
