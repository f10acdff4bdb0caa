//! The kit for migrations.
//!
//! # Design
//!
//! ## Why is a migration written only once?
//!
//! An operator reads the plan of a migration and decides by it. A plan that is a second copy of the migration would soon
//! list other commands. So a migration is one function over [`Conn`](crate::conn::Conn). Each command is a [`Step`], which
//! the driver's typed calls execute and which knows its form as a command. A run executes every step. A plan executes the
//! reads, and lists all steps.
//!
//! ## What is the order of a migration?
//!
//! 1. [`MigrationProgress::new`], which the macro [`migration!`](crate::migration!) calls, checks the numbers of the options.
//! 2. The pattern checks its indexes and settings by [`Ensure`](crate::index::Ensure), then
//!    [`check_selection`](MigrateOptions::check_selection) the filter and the list of the skipped documents.
//! 3. [`Record::read`](crate::catalog::Record::read) reads the last migration into the target, and
//!    [`check_settings`](crate::catalog::Record::check_settings) refuses an unfinished one that has other settings.
//! 4. An aggregation counts what is to be migrated and what is invalid. [`refuse`] and
//!    [`check_any_valid`](InvalidDocuments::check_any_valid) read its numbers. Until here nothing is written.
//! 5. The pattern creates its indexes, [`SkipList::write`] lists the skipped documents, and
//!    [`Record::begin`](crate::catalog::Record::begin) begins or resumes.
//! 6. [`Conn::chunks`](crate::conn::Conn::chunks) returns the chunks. The pattern migrates each of them. Then
//!    [`Record::advance`](crate::catalog::Record::advance) records the position, and
//!    [`MigrationProgress::advance`] reports it and pauses.
//! 7. The pattern looks for what is left, and [`Record::finish`](crate::catalog::Record::finish) ends the migration.
//!
//! A migration whose data show the migrated documents, such as the migration of embedded children from references, has no
//! record.
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
mod progress;
mod skipped;

pub use crate::send::{Reply, Step};
pub use chunks::{Chunk, ChunkedFind, Chunks};
pub use filter::{FILTER, and, check_filter, selecting};
pub use inspect::{LOOKUP_TOO_LARGE, count_if, exceeds_memory, explained, is_inserted, number, refuse, refuse_one};
pub use invalid::{FoundInvalid, InvalidDocuments};
pub use options::{MigrateOptions, Migration};
pub use pace::Pace;
pub use progress::MigrationProgress;
pub use skipped::SkipList;

// For the definition of actions.
pub use mongodb::Collection;
pub use mongodb::bson::Document;
