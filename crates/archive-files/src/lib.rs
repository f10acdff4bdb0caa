//! MongoDB's archive pattern in files: old documents move to files of a directory or an object store, while services write.
//!
//! The pattern comes from MongoDB's manual, "Archive Data". Files are its cheapest form, for data that is nearly never read.
//!
//! # Usage
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use mongo_patterns::Repository;
//! use mongo_patterns::archive_files::FileArchive;
//! use mongo_patterns::archive_files::object_store::local::LocalFileSystem;
//! use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
//!
//! # async fn f(database: mongo_patterns::mongodb::Database, march: DateTime, april: DateTime) -> Result<(), Box<dyn std::error::Error>> {
//! let sales = database.collection::<Document>("sales");
//! let store = LocalFileSystem::new_with_prefix("/mnt/archive")?.with_fsync(true);
//! let archive = FileArchive::<Document>::builder(sales, Arc::new(store), "sales")
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
//! The files are in any store of the crate [`object_store`]: a directory, and with its features S3, Google Cloud and Azure.
//! The [builder](FileArchive::builder) says what a store must promise.
//!
//! ```toml
//! object_store = { version = "0.14", features = ["aws"] }
//! ```
//!
//! ```text
//! let store = AmazonS3Builder::from_env().with_bucket_name("archive").build()?;
//! let archive = FileArchive::<Document>::builder(sales, Arc::new(store), "sales")
//! ```
//!
//! # Stored form
//!
//! A file has the documents of a chunk as BSON, one after another, as `mongodump` writes them, in zstd. Its name is an
//! ObjectId. `zstd -dc FILE | bsondump` prints the documents as extended JSON. The [catalog](mongo_patterns_core::catalog)
//! of the collection's database has a record of each file:
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
//! - For every reader of a snapshot of the collection and the records, a document is in exactly one place: the collection or
//!   a file of the archive.
// proof: archive_files::concurrent::nothing_is_lost_beside_writers, archive_files::killed::a_run_that_is_killed_at_any_step_loses_nothing
//! - An acknowledged write of another client is in the archived document, or the document stays.
// proof: archive_files::concurrent::nothing_is_lost_beside_writers, archive_files::concurrent::a_write_after_the_file_was_written_is_kept
//! - A document keeps all of its bytes.
// proof: archive_files::run::documents_keep_their_bytes_there_and_back
//! - A process that dies leaves at most one file that is no part of the archive. The next run deletes it. If the process was
//!   only paused, and writes the file after that run, [`verify`](FileArchive::verify) names the file. A directory can also
//!   have a temporary file, such as `NAME.bson.zst#1`, which no call reads: delete it.
// proof: archive_files::killed::a_run_that_is_killed_at_any_step_loses_nothing, archive_files::killed::a_restore_that_is_killed_at_any_step_loses_nothing
//! - A store that fails changes nothing, and locks no document.
// proof: archive_files::store::a_store_that_fails_changes_nothing, archive_files::store::a_store_that_hangs_locks_no_document
//! - A changed, truncated or missing file is an error, and changes nothing.
// proof: archive_files::store::a_damaged_file_is_found_and_not_restored
//! - No file is deleted that the catalog does not name. So a deleted or restored catalog loses no file.
// proof: archive_files::store::a_file_without_a_record_is_reported_and_stays
//!
//! No other program may change or delete the files. A prefix has the files of one archive: [`verify`](FileArchive::verify)
//! names unknown files. After a failure of the machine, a directory can have a deleted file again: `verify` names it. A copy
//! of the cluster, such as a test system that was restored from a backup, needs a copy of the files too. With the same
//! store, it would delete files of the original.
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
//! A transaction that stays open while a slow store writes would lock the documents. So a chunk is read and written first,
//! and the transaction reads it again: if a byte has changed, the file is discarded.
//!
//! ## Why is a record written before the file?
//!
//! The record says `pending`, and the transaction that deletes the documents makes it `stored`. So a process that dies
//! leaves a pending record of each file that may exist. The next run makes it `deleted`, which waits for a transaction of
//! the record and refuses a later one, and then deletes the file and the record.
//!
//! ## Why does no call delete files by a list of the store?
//!
//! If the catalog was deleted, or is from a backup, the list would have files without a record, which are the only copy of
//! their documents.
//!
//! ## Why BSON, and not extended JSON?
//!
//! Extended JSON has no form for some documents: a stored `{ "$numberLong": "1" }` is a number afterwards. BSON is exact.

pub mod action;
mod builder;
mod files;
mod finding;
mod form;
mod repository;
mod results;
mod store;
mod transfer;

pub use builder::FileArchiveBuilder;
pub use finding::{Finding, Problem};
pub use mongo_patterns_core::{Deleted, Moved, Progress, Repository};
pub use object_store;
pub use repository::FileArchive;
pub use results::ArchiveFile;
