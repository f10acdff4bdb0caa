//! The actions that the methods of [`SchemaRepository`](crate::SchemaRepository) return.

mod find;
mod migrate;
mod read;
mod verify;
mod write;

pub use find::Find;
pub use migrate::Migrate;
pub use mongo_patterns_core::action::{Read, Write};
pub use mongo_patterns_core::verify::Verify;
