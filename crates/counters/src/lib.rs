//! Counts that are collected in the process, and flushed, each once: the approximation pattern.
//!
//! The pattern comes from MongoDB's manual ("Approximation Pattern"). A count that changes all the time, such as the views
//! of an article, is not written with each change, but together with later ones:
//!
//! ```text
//! articles: { _id: "article-1", title: .., views: 4012, views_batches: [{ w: ObjectId(..), n: 17, k: 3, at: .. }] }
//! ```
//!
//! The usual recipe writes a count when it has changed by 100. Documents that are rarely viewed are never written, all
//! counts are lost when the process restarts, and a repeated write counts twice. This crate flushes all counts by time, and
//! a document ignores a batch that it has already.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns::counters::{Counters, Repository};
//! use mongo_patterns::mongodb::bson::Document;
//!
//! # async fn shutdown() {}
//! # async fn f(database: mongo_patterns::mongodb::Database) -> mongo_patterns::Result<()> {
//! let articles = database.collection::<Document>("articles");
//! let views = Counters::builder(articles).field("views").build()?;
//! views.ensure_indexes().await?; // once, at the start of the service: other repositories keep the counts
//!
//! let flushing = views.clone();
//! let flushing = tokio::spawn(async move { flushing.run().until(shutdown()).await });
//!
//! views.add("article-1", 1)?; // in a request: in memory
//! # Ok(())
//! # }
//! ```
//!
//! Read the count with the document. It lacks what the processes have in memory: up to one interval.
//!
//! # When not to use it
//!
//! - Each count must be stored when the call returns, such as an amount of money: update the document, by `$inc`.
//! - Counts are rare: an update each is as cheap.
//! - Single events matter later: store them, for example with the bucket pattern.
//!
//! # Stored documents
//!
//! The field is a 64-bit number. `views_batches` has an element of 70 bytes for each process that counted the document in
//! the last hour. It contains the name `w` of the process, the number `n` of its last batch, the place `k` of the count in
//! it, and its time `at`. Omit the field by a projection when you read a document to show it.
//!
//! Once [`ensure_indexes`](Repository::ensure_indexes) has stored that the counters own both fields, other repositories keep
//! them. A program that replaces a document by the driver must keep them itself: without the batches, a repeated flush
//! counts twice.
//!
//! # Guarantees
//!
//! With any number of processes:
//!
//! - A count is added once or, if its process ends before a flush, not at all. A flush that is repeated after an unknown
//!   outcome adds nothing twice.
// proof: counters::flushes::a_flush_is_repeated_until_its_outcome_is_known, counters::flushes::a_dropped_flush_adds_each_count_once
//! - A process that is killed loses the counts of one interval and of the running flush. A process that ends by
//!   [`until`](action::Run::until) or a last [`flush`](Counters::flush) loses nothing.
// proof: counters::flushes::killed_processes_lose_what_they_had_not_flushed, counters::flushes::a_run_flushes_by_interval_by_size_and_at_its_end
//! - A count that no command may have added stays in memory until it is added or its document is missing.
// proof: counters::flushes::counts_that_were_never_sent_stay_after_an_unknown_outcome, counters::documents::a_run_continues_beside_a_document_that_refuses_its_count
//! - A flush inserts no document, unless it is [asked to](CountersBuilder::upsert): a deleted or archived document is not
//!   inserted again.
// proof: counters::documents::a_document_that_was_deleted_is_not_inserted_again_unless_asked
//! - Calls of other repositories that replace or restore a document keep its count, after
//!   [`ensure_indexes`](Repository::ensure_indexes) of the counters.
// proof: together::replaced::each_call_keeps_what_each_other_repository_owns, together::replaced::eight_writers_of_others_and_eight_that_replace_lose_nothing
//! - Memory is bounded: [`add`](Counters::add) refuses a count when the counts of 100,000 documents wait.
// proof: counters::flushes::a_count_beyond_the_bound_is_refused
//!
//! A process must not be paused for 45 minutes while it repeats a flush: documents keep the numbers of its batches for an hour.
//!
//! # Cost
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`add`](Counters::add) | none | none |
//! | [`flush`](Counters::flush) | 1 for each 1000 documents | 1 each |
//!
//! The documents are updated by `_id`. In a sharded cluster, counters that [insert](CountersBuilder::upsert) need a
//! collection that is sharded by `_id` or its hash.

#![forbid(unsafe_code)]

/// The actions that the methods of [`Counters`] return.
pub mod action {
    pub use crate::flush::Flush;
    pub use crate::run::Run;
}
mod builder;
mod counters;
mod flush;
mod pending;
mod query;
mod results;
mod run;
mod settings;

pub use self::builder::CountersBuilder;
pub use self::counters::Counters;
pub use self::results::Flushed;
pub use mongo_patterns_core::Repository;
