//! The actions that the methods of [`EmbeddedRepository`](crate::EmbeddedRepository) return, one file each.

mod migrate_from_references;
mod orphans;
mod read;
mod update;
mod verify;
mod write;

pub use migrate_from_references::MigrateFromReferences;
pub use mongo_patterns_core::action::{Find, Read, Write};
pub use mongo_patterns_core::verify::Verify;
