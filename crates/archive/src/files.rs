//! An archive in files, of a directory or an object store: [`FileArchive`]. With the feature `files`.
//!
//! MongoDB's manual recommends files for archived data, before another cluster and a second collection: they are the cheapest form, and
//! the one for data that is nearly never read.
//!
//! # Usage
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use mongo_patterns::Repository;
//! use mongo_patterns::archive::files::{Directory, FileArchive};
//! use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
//!
//! # async fn f(database: mongo_patterns::mongodb::Database, march: DateTime, april: DateTime) -> mongo_patterns::Result<()> {
//! let sales = database.collection::<Document>("sales");
//! let archive = FileArchive::<Document>::builder(sales, Directory::new("/mnt/archive/sales"))
//!     .age_field("date")
//!     .older_than(Duration::from_secs(5 * 365 * 24 * 60 * 60))
//!     .keep(doc! { "retentionPolicy": "permanent" })
//!     .build()?;
//! archive.ensure_indexes().await?;
//!
//! let moved = archive.run().rate(20_000).await?; // every night
//! for file in archive.files(march..april).await? {
//!     let sales = archive.read(&file.name).await?;
//!     archive.restore_file(&file.name).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Stored form
//!
//! A file has the documents of a chunk as BSON, one after another, as `mongodump` writes them, in zstd. Its name is an ObjectId. So
//! `zstd -dc FILE | bsondump` prints them as extended JSON without this crate. The [catalog](mongo_patterns_core::catalog) of the
//! collection's database has a record of each file:
//!
//! ```text
//! { _id: { kind: "archive_file", collection: "sales", name: "6742f0c1a1b2c3d4e5f60718.bson.zst" }, state: "stored",
//!   documents: 5000, bytes: 401233, oldest: ISODate(..), newest: ISODate(..), archived: ISODate(..), sha256: "9f86d08..." }
//! ```
//!
//! # Guarantees
//!
//! Safe for concurrent writers in any number of processes, whether they use this crate or not:
//!
//! - A document is in the collection or in a file of the archive, in exactly one of them for every reader of a snapshot of the
//!   collection and the records.
// proof: archive::files_concurrent::nothing_is_lost_beside_writers, archive::files_killed::a_run_that_is_killed_at_any_step_loses_nothing
//! - An acknowledged write of another client is in the archived document, or the document stays.
// proof: archive::files_concurrent::nothing_is_lost_beside_writers, archive::files_concurrent::a_write_after_the_file_was_written_is_kept
//! - A document keeps all of its bytes.
// proof: archive::files::documents_keep_their_bytes_there_and_back
//! - A process that dies leaves at most one file that is no part of the archive. The next run deletes it. If the process was only
//!   paused, writes the file after that run, and dies then, [`verify`](FileArchive::verify) names the file.
// proof: archive::files_killed::a_run_that_is_killed_at_any_step_loses_nothing, archive::files_killed::a_restore_that_is_killed_at_any_step_loses_nothing
//! - A store that fails changes nothing, and locks no document.
// proof: archive::files_store::a_store_that_fails_changes_nothing, archive::files_store::a_store_that_hangs_locks_no_document
//! - A changed, truncated or missing file is an error, and changes nothing.
// proof: archive::files_store::a_damaged_file_is_found_and_not_restored
//! - No file is deleted that the catalog does not name. So a catalog that was deleted, or restored from a backup, loses no file.
// proof: archive::files_store::a_file_without_a_record_is_reported_and_stays
//!
//! No other program may change or delete the files. A store has the files of one archive: [`verify`](FileArchive::verify) names those that it
//! does not know. A copy of the cluster, such as a test system that was restored from a backup, needs a copy of the files too: with
//! the same store, it would delete those of the other one.
//!
//! # Cost
//!
//! | call | round trips | files |
//! |---|---|---|
//! | [`run`](FileArchive::run) | 4, and 6 for each chunk of 5000 documents | one written for each chunk |
//! | [`files`](FileArchive::files) | 1 | |
//! | [`read`](FileArchive::read) | 1 | one read |
//! | [`restore_file`](FileArchive::restore_file) | 5 | one read, one deleted |
//! | [`delete_before`](FileArchive::delete_before) | 3, and 2 for each file | those deleted |
//! | [`verify`](FileArchive::verify) | 2, and one for each 1000 files | all read |
//!
//! # Design
//!
//! ## Why is the file written before the transaction?
//!
//! A transaction that stays open while a slow store writes would lock the documents. So a chunk is read and written first, and
//! the transaction reads it again: if a byte has changed, the file is discarded. It takes a few milliseconds, whatever the store does.
//!
//! ## Why is a record written before the file?
//!
//! The record says `pending`, and the transaction that deletes the documents makes it `stored`. So a process that dies leaves a
//! pending record of each file that may exist. The next run makes it `deleted`, which waits for a transaction of the record
//! and refuses a later one, and then deletes the file and the record. No clock decides.
//!
//! ## Why does no call delete files by a list of the store?
//!
//! If the catalog was deleted, or is that of a backup, the list would have files without a record, which are the only copy of their
//! documents.
//!
//! ## Why BSON, and not extended JSON?
//!
//! Extended JSON has no form for some documents: a stored `{ "$numberLong": "1" }` is a number afterwards. Every form of a document in
//! BSON is exact.

mod archive;
mod delete;
mod file;
mod problem;
mod read;
mod restore;
mod run;
mod store;
mod verify;

pub use archive::{FileArchive, FileArchiveBuilder};
pub use delete::DeleteFilesBefore;
pub use file::ArchiveFile;
pub use problem::{FileFinding, FileProblem};
pub use run::ToFiles;
pub use store::{Directory, FileStore, StoreFuture};

/// The names that most calls use.
mod prelude {
    #[allow(unused_imports)] // the links of the documentation use them
    pub(super) use mongo_patterns_core::{ErrorKind::*, Repository};

    pub(super) use super::archive::{FileArchive, Shared};
    pub(super) use super::file::*;
    pub(super) use crate::prelude::*;
}
