//! The calls as structs: each has setters for its options, and runs when it is awaited.

mod delete;
mod elements;
mod migrate_existing;
mod read;
mod repair;
mod write;

pub use delete::Delete;
pub use elements::Elements;
pub use migrate_existing::MigrateExisting;
pub use mongo_patterns_core::action::{Find, Read, Write};
pub use mongo_patterns_core::verify::Verify;
pub use repair::RepairLists;
