//! MongoDB's archive pattern as a typed archive: old documents in a second collection, moved while services write.
//!
//! The pattern is that of MongoDB's manual, "Archive Data". Documents that are old enough move to a second collection, with
//! the same bytes:
//!
//! ```text
//! sales:          { _id: 2, customer_name: "Joy", total_amount: 41.5, date: ISODate("2026-10-01T00:00:00Z") }
//!
//! archived_sales: { _id: 1, customer_name: "Claire", total_amount: 129.0, date: ISODate("2016-03-01T00:00:00Z") }
//! ```
//!
//! # Usage
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use mongo_patterns::archive::Archive;
//! use mongo_patterns::Repository;
//! use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Sale {
//!     #[serde(rename = "_id")]
//!     id: i32,
//!     customer_name: String,
//!     date: DateTime,
//! }
//!
//! # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
//! let (sales, archived) = (database.collection::<Document>("sales"), database.collection("archived_sales"));
//! let archive = Archive::<Sale>::builder(sales, archived)
//!     .age_field("date")
//!     .older_than(Duration::from_secs(5 * 365 * 24 * 60 * 60))
//!     .keep(doc! { "retentionPolicy": "permanent" })
//!     .build()?;
//! archive.ensure_indexes().await?;
//!
//! let moved = archive.run().rate(2_000).await?; // every night
//! let sale = archive.get(1).await?; // wherever it is
//! let of_claire = archive.find(doc! { "customer_name": "Claire" }).limit(20).await?; // of both, newest first
//! archive.restore(1).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # When not to use it
//!
//! - Old documents are deleted, and not kept: a TTL index does it.
//! - All documents fit into memory, or old ones are read as often as new ones: a second collection saves nothing.
//! - The archive is to cost less per byte: a collection of the same cluster does not. Use another cluster, or files.
//! - A [reference](https://docs.rs/mongo-patterns-reference) follows the collection, or a subset's children are in it: for their
//!   followers an archived document is a deleted one.
//!
//! # Guarantees
//!
//! Safe for concurrent writers in any number of processes, whether they use this crate or not:
//!
//! - A document is in the collection or in the archive, in exactly one of them for every reader of a snapshot.
// proof: archive::concurrent::no_write_is_lost_beside_runs_and_restores, faults::table::every_operation_with_a_fault_and_a_drop
//! - An acknowledged write of another client is in the archived document, or the document stays. A write that comes later finds no
//!   document with this `_id`. [`get`](Archive::get) finds it in the archive.
// proof: archive::concurrent::a_write_between_the_read_and_the_deletion_is_kept, archive::concurrent::no_write_is_lost_beside_runs_and_restores
//! - A document keeps all of its bytes.
// proof: archive::values::documents_keep_their_bytes_there_and_back
//! - A document that is inserted again under the `_id` of an archived one stays in the collection, and is reported.
// proof: archive::run::a_conflict_stays_unless_it_replaces
//! - A run that ends at any point leaves no document in both, and the next one continues.
// proof: conformance::migrations::interrupted::a_migration_that_fails_at_a_command_resumes, conformance::migrations::interrupted::a_migration_that_is_dropped_after_a_command_resumes
//! - A document that another client writes all the time does not stop a run.
// proof: archive::concurrent::a_document_that_others_hold_does_not_stop_a_run
//! - Ids and values are never interpreted.
// proof: archive::values::ids_of_all_types_move_and_are_found
//!
//! The caller's filters and the documents to keep are filters of the driver: do not build them from text of users.
//!
//! # Cost
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`get`](Archive::get) | 1; 2 for an archived document, 3 for an absent one | 1 each |
//! | [`find`](Archive::find) | 2 | those of a page and those that the filter leaves out, in both collections |
//! | [`run`](Archive::run) | 3, and 4 for each chunk of 500 | those that are old enough, twice |
//! | [`due`](Archive::due) | 1 | none, or those that are old enough if some are to keep |
//! | [`restore`](Archive::restore) | 4 | 1 |
//! | [`restore_many`](Archive::restore_many) | 4, and 4 for each chunk of 500 | all archived ones, or those of the filter twice |
//! | [`delete_archived_before`](Archive::delete_archived_before) | 3, and 1 for each chunk of 1000 | those that are old enough |
//! | [`verify`](Archive::verify) | 3, and 2 for each 1000 archived documents | all |
//!
//! The writes of a service are those of the driver: they need no version and no guard.

pub mod action;
mod archive;
mod builder;
mod finding;
mod prelude;
mod query;
mod results;
mod settings;
mod token;
mod transfer;

pub use archive::Archive;
pub use builder::ArchiveBuilder;
pub use finding::{Finding, Problem};
pub use mongo_patterns_core::{Progress, Repository};
pub use results::{DeletedArchived, Due, Found, FoundPage, Moved, Restored};
pub use token::ArchiveToken;
