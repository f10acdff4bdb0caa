//! The kit for migrations.
//!
//! # Design
//!
//! ## Why is a migration written only once?
//!
//! An operator reads the plan of a migration and decides by it. A plan that is a second copy of the migration lists
//! other commands as soon as one of the two changes. So a migration is one function over
//! [`Conn`](crate::conn::Conn). Each command is a [`Step`], which the driver's typed calls execute and which knows its form as a command. A run executes every step. A
//! plan executes those that only read, and lists all of them.
//!
//! ## Why does a step not run the command that it lists?
//!
//! `runCommand` has no retryable writes, and reports write errors as success. The driver's typed calls have both.

mod chunks;
mod filter;
mod inspect;
mod invalid;
mod options;
mod pace;
mod skipped;

pub use crate::send::{Reply, Step};
pub use chunks::{Chunk, Chunks, Walk};
pub use filter::{FILTER, both, check_filter, record_filter, selecting};
pub use inspect::{count_if, exceeds_memory, is_inserted, number, refuse, refuse_one};
pub use invalid::{FoundInvalid, InvalidDocuments};
pub use options::{MigrateOptions, Migration};
pub use pace::Pace;
pub use skipped::SkipList;

// For the definition of actions.
pub use mongodb::Collection;
pub use mongodb::bson::Document;
