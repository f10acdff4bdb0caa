//! MongoDB's archive pattern: old documents move to a second collection while services write. And a [trash](#trash) of
//! deleted documents.
//!
//! The pattern comes from MongoDB's manual, "Archive Data". Documents that are old enough move to a second collection, with
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
//! let (sales, archived) = (database.collection::<Document>("sales"), database.collection::<Document>("archived_sales"));
//! let archive = Archive::<Sale>::builder(sales, archived)
//!     .age_field("date")
//!     .older_than(Duration::from_secs(5 * 365 * 24 * 60 * 60))
//!     .keep(doc! { "retentionPolicy": "permanent" })
//!     .build()?;
//! archive.ensure_indexes().await?;
//!
//! let moved = archive.run().rate(2_000).await?; // every night
//! let sale = archive.get(1).await?; // wherever it is
//! let of_claire = archive.list(doc! { "customer_name": "Claire" }).newest_first().page().await?; // of both
//! archive.restore(1).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Trash
//!
//! A [`Trash`] moves a deleted document to a second collection, with the time and who deleted it. So it can be restored, and
//! no query or unique index of the collection sees it:
//!
//! ```text
//! users:         { _id: 2, name: "Joy", email: "joy@example.com" }
//!
//! deleted_users: { _id: ObjectId(..), document: { _id: 1, name: "Claire", email: "claire@example.com" },
//!                  deletedAt: ISODate(..), deletedBy: "ann", expiresAt: ISODate(..) }
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use mongo_patterns::archive::Trash;
//! use mongo_patterns::Repository;
//! use mongo_patterns::mongodb::bson::Document;
//!
//! # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
//! let (users, deleted_users) = (database.collection::<Document>("users"), database.collection::<Document>("deleted_users"));
//! let trash = Trash::<Document>::builder(users, deleted_users)
//!     .expires_after(Duration::from_secs(30 * 24 * 60 * 60))
//!     .build()?;
//! trash.ensure_indexes().await?;
//!
//! trash.delete(1).by("ann").await?;
//! let deleted = trash.list().newest_first().limit(20).page().await?;
//! trash.restore(1).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The usual soft deletion sets a field `deleted`. Then a unique index refuses the address of a deleted user, and every
//! query has to leave deleted documents out. A partial unique index covers only documents with the field that its filter
//! names, so two documents without it can have one address.
//!
//! An entry has an `_id` of its own, so a document that is deleted twice has two entries. Times are by the clocks of the
//! clients. The server deletes an expired entry within about a minute.
//!
//! # Related documents of a trash
//!
//! [`related`](TrashBuilder::related) names a collection whose documents are deleted with their document, such as the
//! overflow documents of a list or the children of a parent. They become entries of the same trash, with the name of their
//! collection, and the entry of their document:
//!
//! ```text
//! deleted_books: { _id: ObjectId("a"), document: { _id: 7, title: "The Wooden Amulet", has_extras: true, .. }, deletedAt: ISODate(..),
//!                  related: 1 }
//!                { _id: ObjectId("b"), of: ObjectId("a"), collection: "extra_books",
//!                  document: { _id: ObjectId("c"), book_id: 7, customers_extra: [..] }, deletedAt: ISODate(..) }
//! ```
//!
//! `database` is the database of the collection, if the trash is in another database. [`restore`](Trash::restore) inserts
//! them again, and [`list`](Trash::list) returns only the documents. They expire with their document, and
//! [`delete_before`](Trash::delete_before) deletes them with it. A document that has lost some of them is not restored.
//!
//! The limits of [related documents](#related-documents) below hold here too. Build the trash with all collections that its
//! entries name: with other settings it refuses to list or restore them.
//!
//! # Related documents
//!
//! Some documents belong together: an outlier and its overflow documents, a history and its revisions, an order and its
//! lines. [`related`](ArchiveBuilder::related) names the other collection and its field with the id of the document. Then
//! they move together, in one transaction. A repository of the pattern over the archived collections reads them unchanged.
//!
//! - Any number of clients can update and delete related documents concurrently. A client that *inserts* a related document
//!   also writes the document that it belongs to, in one transaction, as the outlier and history patterns do. Otherwise the
//!   new document can be left behind: [`verify`](Archive::verify) names it as [`Elsewhere`](Problem::Elsewhere).
//! - A chunk has at most 10,000 related documents, and 16 MiB of them: more halve it. One document can have 100,000, and 32
//!   MiB. With more, it stays, is [counted](Moved::too_large), and [`restore`](Archive::restore) refuses it as
//!   [`TooLarge`](mongo_patterns_core::ErrorKind::TooLarge).
//! - A document stays, and counts as a conflict, if a unique index of the archive refuses one of its related documents.
//! - Related documents without their document, such as the revisions of a deleted policy, stay.
//!
//! The embedded pattern needs none of this: it has one document.
//!
//! # Old revisions
//!
//! Old revisions can be archived instead of deleted by `delete_before` of the history. The archive is an archive of the
//! collection of the revisions, and [keeps the newest](ArchiveBuilder::keep_newest_by) of the old revisions of each
//! document:
//!
//! ```no_run
//! # use std::time::Duration;
//! # use mongo_patterns::archive::Archive;
//! # use mongo_patterns::mongodb::{Database, bson::Document};
//! # fn f(database: Database) -> mongo_patterns::Result<()> {
//! let collection = |name| database.collection::<Document>(name);
//! let archive = Archive::<Document>::builder(collection("policyRevisions"), collection("archivedRevisions"))
//!     .age_field("dateSet")
//!     .older_than(Duration::from_secs(365 * 24 * 60 * 60))
//!     .keep_newest_by("policyId")
//!     .build()?;
//! # Ok(())
//! # }
//! ```
//!
//! The collection then contains what `delete_before(id, time)` of the history leaves. Restore all revisions of a document,
//! or none.
//!
//! # When not to use it
//!
//! - Old documents are deleted, and not kept: a TTL index does it.
//! - All documents fit into memory, or old ones are read as often as new ones: a second collection saves nothing.
//! - The archive is to cost less per byte: a collection of the same cluster does not. Use files: the crate `mongo-patterns-archive-files`.
//! - A [reference](https://docs.rs/mongo-patterns-reference) follows the collection, or a subset's children are in it: for
//!   their followers an archived document is a deleted one. Documents that refer to others can be archived: their copies
//!   stay as they are, unless they are [restored through](action::Restore::through) the references.
//!
//! # Guarantees
//!
//! Safe for concurrent writers in any number of processes, whether they use this crate or not:
//!
//! - For every reader of a snapshot, a document is in exactly one place: the collection or the archive.
// proof: archive::concurrent::no_write_is_lost_beside_runs_and_restores, faults::table::every_operation_with_a_fault_and_a_drop
//! - An acknowledged write of another client is in the archived document, or the document stays. A later write finds no
//!   document with this `_id`. [`get`](Archive::get) finds it in the archive.
// proof: archive::concurrent::a_write_between_the_read_and_the_deletion_is_kept, archive::concurrent::no_write_is_lost_beside_runs_and_restores
//! - A document keeps all of its bytes.
// proof: archive::values::documents_keep_their_bytes_there_and_back
//! - A document that is inserted again under the `_id` of an archived one stays in the collection, and is reported.
// proof: archive::run::a_conflict_stays_unless_it_replaces
//! - A run that ends at any point leaves no document in both, and the next one continues.
// proof: conformance::migrations::interrupted::a_migration_that_fails_or_is_dropped_at_a_command_resumes
//! - [Related](#related-documents) documents are where their document is.
// proof: archive::books_concurrent::no_push_is_lost_beside_runs_and_restores, archive::policies::no_revision_is_lost_beside_runs_and_restores, faults::table::every_operation_with_a_fault_and_a_drop
//! - With [`keep_newest_by`](ArchiveBuilder::keep_newest_by), no document moves before an older document of its value.
// proof: archive::revisions::an_interrupted_run_leaves_no_gap, archive::revisions::writers_beside_runs_leave_no_gap, archive::revisions::a_revision_that_cannot_move_ends_the_run
//! - A document that another client writes all the time, or that the archive refuses, does not stop a run. All others move.
//!   At its end, a run spends the time of the retry policy once on documents that others write.
// proof: archive::concurrent::a_document_that_others_hold_does_not_stop_a_run, archive::concurrent::documents_that_others_hold_hold_up_no_other_one, archive::concurrent::documents_that_others_hold_for_a_while_are_archived, archive::concurrent::a_run_spends_the_time_of_the_policy_once, archive::run::a_document_that_the_archive_refuses_does_not_stop_a_run
//! - From the first page of [`list`](Archive::list) to the last, a document that does not change is on one page, whatever
//!   moves in between.
// proof: archive::pages::each_document_is_on_one_page_beside_runs_and_restores
//! - Ids and values are never interpreted.
// proof: archive::values::ids_of_all_types_move_and_are_found
//!
//! And of a trash:
//!
//! - For every reader of a snapshot, a deleted document is in exactly one place: the collection or an entry. An acknowledged
//!   write of another client is in the entry, or it finds no document.
// proof: archive::trash_concurrent::a_write_before_the_deletion_commits_is_kept_or_waits, archive::trash_concurrent::no_write_is_lost_beside_deletions_and_restores, faults::table::every_operation_with_a_fault_and_a_drop
//! - Of several deletions of a document, one finds it.
// proof: archive::trash_concurrent::one_of_several_deletions_finds_the_document
//! - A unique value of a deleted document is free. When another document has it, a restore is refused, with nothing changed.
// proof: archive::trash::a_unique_value_is_free_after_a_deletion_and_refuses_a_restore_when_it_is_taken
//! - [Related](#related-documents-of-a-trash) documents are where their document is. All of them are restored, or none.
// proof: together::trash_with_related::an_id_that_is_deleted_twice_keeps_its_lists_apart, together::trash_with_related::a_part_of_a_list_is_never_restored, together::trash_with_related_concurrent::no_push_is_lost_beside_deletions_and_restores, together::trash_with_related_concurrent::a_dropped_call_moves_a_whole_or_nothing, faults::table::every_operation_with_a_fault_and_a_drop
//! - A document that is restored [through](action::Restore::through) its references has current copies of existing sources,
//!   from a trash and from an archive.
// proof: together::restored::copies_are_current_after_a_restore, together::restored::no_restored_order_dangles_beside_writers_of_sources
//! - No entry is overwritten, and a restore takes the newest one of its `_id`.
// proof: archive::trash::a_document_that_is_deleted_several_times_is_kept_each_time
//! - A document keeps all of its bytes, and ids and values are never interpreted.
// proof: archive::trash::documents_keep_their_bytes_under_ids_of_all_types
//! - A document whose entry, or whose related entry, would be too large stays.
// proof: archive::trash::a_document_whose_entry_would_be_too_large_stays, together::trash_with_related::a_related_document_whose_entry_would_be_too_large_stays
//!
//! The caller's filters and the documents to keep are filters of the driver: do not build them from text of users.
//!
//! # Cost
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`get`](Archive::get) | 1; 2 for an archived document, 3 for an absent one | 1 each |
//! | [`list`](Archive::list) | 2 a page | those of a page and those that the filter leaves out, in both collections |
//! | [`run`](Archive::run) | 4, and 4 for each chunk, or 5 if it has more than 100 documents | those that are old enough, twice |
//! | [`due`](Archive::due) | 1 | none, or those that are old enough if some are to keep |
//! | [`restore`](Archive::restore) | 4 | 1 |
//! | [`restore_many`](Archive::restore_many) | 5, and as `run` for each chunk | all archived ones, or those of the filter twice |
//! | [`delete_before`](Archive::delete_before) | 4, and 1 for each chunk of 1000 | those that are old enough |
//! | [`verify`](Archive::verify) | 3, and 2 for each 1000 archived documents | all |
//! | [`repair`](Archive::repair) | those of `verify`, and 4 for each document in both | all |
//! | [`Trash::delete`] | 3 | 1 |
//! | [`Trash::restore`] | 4 | 1 |
//! | [`Trash::list`] | 1 a page | those of the page, and 1 more |
//! | [`Trash::delete_before`] | 3, and 1 for each chunk of 1000 | those that are old enough |
//! | [`Trash::verify`] | 2, and 1 for each 1000 entries | all |
//!
//! A repository that has not called `ensure_indexes` checks the indexes once, at the first [`list`](Archive::list),
//! [`due`](Archive::due), [`Trash::list`] or [`Trash::restore`], with one more round trip for each collection with indexes.
// proof: archive::calls::an_index_with_some_of_the_documents_is_refused, archive::trash::an_index_with_some_of_the_entries_is_refused
//!
//! With [related](#related-documents) documents, each chunk takes one round trip more for each of their collections, or four
//! if there are some. [`Trash::delete`] takes one or three more for each of its related collections. [`Trash::restore`]
//! takes two more, and one for each such collection.
//!
//! A service writes with the driver: its writes need no version and no guard.

pub mod action;
mod builder;
mod entry;
mod finding;
mod newest;
mod query;
mod related;
mod related_entries;
mod repository;
mod results;
mod through;
mod token;
mod transfer;
mod trash;

pub use builder::ArchiveBuilder;
pub use finding::{Finding, Problem, Repaired, TrashFinding, TrashProblem, Unrepaired};
pub use mongo_patterns_core::{Deleted, Moved, Progress, Repository};
pub use repository::Archive;
pub use results::{Due, Found, Restored, TrashEntry};
pub use token::{ArchiveToken, TrashToken};
pub use trash::{Trash, TrashBuilder};
