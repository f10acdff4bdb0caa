//! A history of document versions in MongoDB as a typed repository: current documents in one collection, and all of their
//! revisions in another.
//!
//! The pattern comes from MongoDB's manual, "Keep a History of Document Versions" (the document versioning pattern). An
//! insurance company keeps the current policies, and every version that a policy had:
//!
//! ```text
//! currentPolicies: { policyId: 1, customerName: "Michelle", itemsInsured: ["golf clubs", "car", "watch"], revision: 2, dateSet: .. }
//! policyRevisions: { policyId: 1, customerName: "Michelle", itemsInsured: ["golf clubs", "car"], revision: 1, dateSet: .. }
//!                  { policyId: 1, customerName: "Michelle", itemsInsured: ["golf clubs", "car", "watch"], revision: 2, dateSet: .. }
//! ```
//!
//! The current documents stay small and fast, and any earlier version can be read, by its number or by a time. The manual's
//! recipe is an `updateOne`, and then a `$merge` of the updated document into the revisions. Two concurrent clients lose
//! revisions and store others twice, and a process that dies between the two commands leaves a gap. This crate stores the
//! same documents without these faults.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns::history::{HistoryRepository, Repository};
//! use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct Policy {
//!     policy_id: i32,
//!     customer_name: String,
//!     items_insured: Vec<String>,
//! }
//!
//! # async fn f(database: mongo_patterns::mongodb::Database, policy: Policy, accident: DateTime) -> mongo_patterns::Result<()> {
//! let current = database.collection::<Document>("currentPolicies");
//! let revisions = database.collection::<Document>("policyRevisions");
//! let policies = HistoryRepository::<Policy>::builder(current, revisions)
//!     .id_field("policyId")
//!     .revision_field("revision")
//!     .time_field("dateSet")
//!     .build()?;
//! policies.ensure_indexes().await?; // once, at the start of the service
//!
//! policies.insert(&policy).await?; // revision 1
//! if let Some(current) = policies.get(1).await? {
//!     let watch = doc! { "$push": { "itemsInsured": "watch" } };
//!     policies.update(1, watch).expecting(current.revision).await?; // only if it was not changed since
//! }
//! let first = policies.at(1, 1).await?;
//! let valid = policies.as_of(1, accident).await?; // the revision at the time of the accident
//! let history = policies.revisions(1).newest_first().limit(20).page().await?;
//! for change in policies.diff(1, 1, 2).await?.changes {
//!     println!("{} changed", change.path);
//! }
//! policies.restore(1, 1).await?; // revision 3, with the content of revision 1
//! policies.keep_last(1, 100).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # When not to use it
//!
//! - Earlier versions are never read: an update is enough. A log of changes for other systems is a change stream.
//! - Documents change many times a second: each revision is a full copy. Store measurements with the bucket pattern.
//! - Documents are large and changes are small: store the changes as events.
//! - Programs of yours join the past by time, such as sales with the prices of their days: use
//!   [`mongo-patterns-intervals`](https://docs.rs/mongo-patterns-intervals).
//!
//! # How it works
//!
//! A write changes the current document by one `findAndModify`, which increments the revision, and inserts a copy of it into
//! the revisions, in one transaction. The current revision is in both collections, as in the manual.
//!
//! Transactions need a replica set, for which one node is enough, or a sharded cluster.
//!
//! A deletion is a revision too, with the id, the number, the time and `deleted: true`. A later insert of the same id
//! continues with the next number. If other repositories own fields of the document, the revision has them, and their names
//! in `mongo_patterns_kept`.
//!
//! The time of a revision is the server's, or 1 ms after the previous revision if the clock is not after it. On a sharded
//! cluster, an update by operators uses the client's clock, because a router and a shard have different clocks.
//!
//! # Documents by `_id`
//!
//! The id of a document can be its `_id`: `id_field("_id")`. A revision has an `_id` of its own, and the document's `_id` in
//! [another field](HistoryRepositoryBuilder::document_id_field), `documentId` by default, which no document of yours can
//! have:
//!
//! ```text
//! currentPolicies: { _id: 1, customerName: "Michelle", itemsInsured: [..], revision: 2, dateSet: .. }
//! policyRevisions: { _id: ObjectId(..), documentId: 1, customerName: "Michelle", itemsInsured: [..], revision: 2, dateSet: .. }
//! ```
//!
//! All calls are the same. Each document that is inserted must have an `_id`, and the current documents need no further
//! index.
//!
//! # Guarantees
//!
//! With any number of writers, in any number of processes that write through this crate:
//!
//! - Every write that returns `Ok` has exactly one revision. A write that fails has no effect, unless its [outcome is
//!   unknown](mongo_patterns_core::Error::is_outcome_unknown).
// proof: history::concurrent::sixty_four_writers_of_one_document_lose_nothing, history::concurrent::concurrent_upserts_of_a_new_document_are_its_first_revisions, faults::table::every_operation_with_a_fault_and_a_drop
//! - The numbers of a document have no gap and no duplicate, and the current document is its newest revision. Only
//!   [`delete_before`](HistoryRepository::delete_before) and [`keep_last`](HistoryRepository::keep_last) delete revisions,
//!   from the oldest.
// proof: history::concurrent::all_calls_together_leave_no_gap_and_no_double, history::by_id::two_processes_lose_and_double_nothing, history::calls::a_deletion_keeps_the_newest_revisions
//! - The times of the revisions strictly increase, so [`as_of`](HistoryRepository::as_of) is well-defined.
// proof: history::calls::times_rise_strictly_even_if_the_clock_was_ahead
//! - A write that [expects](action::Update::expecting) a revision has no effect if the document is at another revision, and
//!   is safe to retry.
// proof: history::concurrent::read_change_replace_with_an_expected_revision_loses_nothing, history::calls::an_update_at_another_revision_is_refused_and_has_no_effect
//! - Fields that other repositories [own](mongo_patterns_core::catalog#owners) stay when a document is replaced or restored,
//!   also beside their writers. A deleted document is restored with these fields as they were at its deletion.
// proof: together::replaced::each_call_keeps_what_each_other_repository_owns, together::replaced::eight_writers_of_others_and_eight_that_replace_lose_nothing, together::deleted::a_deleted_document_is_restored_with_what_others_had_at_its_deletion
//! - [`update_many`](HistoryRepository::update_many) updates a document at most once, and only while it matches the filter.
// proof: history::update_many::a_document_that_does_not_match_any_more_stays_as_it_is, history::update_many::a_dropped_call_leaves_each_document_with_all_of_its_revisions
//!
//! Not guaranteed: a program that changes a current document without this crate does not store a revision. The next write
//! stores both results in one revision. [`verify`](HistoryRepository::verify) finds such a document, and
//! [`repair`](HistoryRepository::repair) stores it as a revision. A [follower](HistoryRepository::follow) stores each write
//! of other programs shortly after it.
//!
//! # Documents with an old number
//!
//! Another program can restore a current document with the number of an older revision, for example from a backup or a
//! trash. The next write first stores the document, as it found it, as the revision after the last one, in a transaction of
//! its own. So do [`repair`](HistoryRepository::repair) and a follower. The history has no gap.
// proof: together::history_and_trash::the_next_write_numbers_on_from_the_last_revision, together::history_and_trash::eight_writers_and_eight_tasks_of_a_trash_lose_nothing
//!
//! A call that [expects](action::Update::expecting) that old number is refused with
//! [`RevisionMismatch`](mongo_patterns_core::ErrorKind::RevisionMismatch). In a transaction of the caller, the write fails
//! as after a conflict: the driver's callback runs again.
// proof: together::history_and_trash::a_call_that_expects_the_old_revision_is_refused_once
//!
//! # Who made a change, and why
//!
//! [`change_fields`](HistoryRepositoryBuilder::change_fields) names fields that describe a change, such as `changedBy`. Each
//! call gives their values by [`with`](action::Update::with):
//!
//! ```no_run
//! # use mongo_patterns::history::HistoryRepository;
//! # use mongo_patterns::mongodb::bson::doc;
//! # async fn f(policies: HistoryRepository<()>) -> mongo_patterns::Result<()> {
//! let update = doc! { "$push": { "itemsInsured": "watch" } };
//! policies.update(1, update).with(doc! { "changedBy": "Ann", "reason": "call 17" }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! They are in the current document and in the revision, also of a deletion. A call that does not give one removes it, so a
//! revision never has the description of an earlier change. [`Revision::change`] has them. A document or an update that has
//! one is refused: remove them from a document that you have read before you write it back.
//!
//! # Cost
//!
//! Each round trip of a write examines at most one document, however long the history is.
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`insert`](HistoryRepository::insert) | 4 | 1 each |
//! | [`insert_many`](HistoryRepository::insert_many) | 5 | the revisions of those that were deleted |
//! | [`find`](HistoryRepository::find) | 1 for each batch | those of its index |
//! | [`update`](HistoryRepository::update), [`replace`](HistoryRepository::replace) | 3; 4 for operators on a sharded cluster | 1 each |
//! | [`upsert`](HistoryRepository::upsert) | 3; 6 for a document that does not exist | 1 each |
//! | [`update_many`](HistoryRepository::update_many) | 2, and for each document those of `update`, four concurrently | 1 each, and those of the filter |
//! | [`delete`](HistoryRepository::delete) | 4 | 1 each |
//! | [`restore`](HistoryRepository::restore) | 4; 7 for a deleted document, 8 or 9 if others own fields of it | 1 each |
//! | [`get`](HistoryRepository::get), [`at`](HistoryRepository::at), [`as_of`](HistoryRepository::as_of) | 1 | 1 |
//! | [`revisions`](HistoryRepository::revisions) | 1 a page | those of the page, and 1 more |
//! | [`diff`](HistoryRepository::diff) | 2 | 1 each |
//! | [`delete_before`](HistoryRepository::delete_before), [`keep_last`](HistoryRepository::keep_last) | 2 | those it deletes, and 1 more |
//! | [`verify`](HistoryRepository::verify), [`repair`](HistoryRepository::repair) | 2 scans, and 1 for each 100 documents | all |
//! | [`migrate_existing`](HistoryRepository::migrate_existing) | 12, or 16 the first time, and 1 for each number that is stored twice | all, several times |
//! | [`ensure_indexes`](HistoryRepository::ensure_indexes) | 5, or 9 the first time | all, to create |
//!
//! The first write of a repository has three more round trips, which check the indexes and detect the deployment.
//!
//! # Lanes
//!
//! Each document has a lane: a queue of the calls that write it, with one transaction in flight. So transactions of one
//! process never conflict, and a document that another client has locked occupies one connection. Calls for other documents
//! do not wait.
//!
//! An [`update`](HistoryRepository::update), [`replace`](HistoryRepository::replace) or
//! [`delete`](HistoryRepository::delete) that meets no other call has a transaction of its own, at once. Up to 100 that wait
//! share the next transaction, each as a revision of its own, and a refused call fails alone. Calls in a session, and other
//! writes, wait for their turn.
//!
//! See also what is true of [all lanes](mongo_patterns_core::action#lanes).
//!
//! # Indexes
//!
//! The current documents need a unique index on the id, unless it is `_id`. The revisions need a unique one on the id and
//! the revision, and one on the id, the time and the revision. [`indexes`](HistoryRepository::indexes) returns their
//! definitions. Reads and writes name them in hints, so that the server refuses them if one is missing.
//!
//! # Sessions and transactions
//!
//! Pass the session of a transaction to each call. Document and revision are then written in that transaction. `?` works in
//! the driver's callback, which runs again when writers conflict:
//!
//! ```no_run
//! # use mongo_patterns::history::HistoryRepository;
//! # use mongo_patterns::mongodb::{Client, Collection, bson::{Document, doc}};
//! # async fn f(client: Client, policies: HistoryRepository<Document>, audit: Collection<Document>)
//! # -> mongo_patterns::mongodb::error::Result<()> {
//! let (policies, audit) = (policies.clone(), audit.clone());
//! let mut session = client.start_session().await?;
//! session
//!     .start_transaction()
//!     .and_run2(async move |session| {
//!         let recorded = policies.delete(1).session(&mut *session).await?;
//!         audit.insert_one(doc! { "deleted": 1, "found": recorded.found }).session(session).await?;
//!         Ok(())
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Migrations
//!
//! [`migrate_existing`](HistoryRepository::migrate_existing) migrates collections of the manual's form, plain documents
//! without a history, and documents with an embedded array of their earlier versions. A write to a document without a
//! revision fails with [`NotMigrated`](mongo_patterns_core::ErrorKind::NotMigrated).
//!
//! # Sharding
//!
//! [`ensure_sharded`](HistoryRepository::ensure_sharded) shards both collections by the id. Every read and write of a
//! document reaches one shard. `verify`, `repair`, `follow` and migrations reach all.

pub mod action;
mod builder;
mod follow;
mod form;
mod migrate;
mod query;
mod read;
mod repair;
mod repository;
mod results;
mod settings;
mod through;
mod token;
mod write;

pub use builder::HistoryRepositoryBuilder;
pub use mongo_patterns_core::follow::Followed;
pub use mongo_patterns_core::{Progress, Repository};
pub use repair::finding::{Finding, Problem, Repaired, Unrepaired};
pub use repository::HistoryRepository;
pub use results::{Current, DeletedDocument, Diff, FieldChange, Migrated, Recorded, Revision, UpdatedMany};
pub use token::RevisionToken;
