//! MongoDB's slowly changing dimensions as a typed repository: each document has the interval of time in which it is valid,
//! in one collection.
//!
//! The layout comes from MongoDB's manual, "Slowly Changing Dimensions" (type 2). A shop keeps its prices, and which price each
//! item had at any time:
//!
//! ```text
//! prices: { item: "pants", price: 5, validFrom: 1900-01-01, validTo: 2025-03-01, isValid: false }
//!         { item: "pants", price: 7, validFrom: 2025-03-01, validTo: 9999-01-01, isValid: true }
//! ```
//!
//! Every program reads it by a plain query, also an aggregation that joins sales with the prices of their days. The [history
//! pattern](https://docs.rs/mongo-patterns-history) has numbers, diffs, restores and a follower, and its current documents
//! stay small.
//!
//! The manual's recipe closes the document that has `isValid: false` or none, and then inserts the new one. So it never
//! closes the valid document, and after three changes by one writer three prices are valid. With the right filter, two
//! writers both insert one. In a transaction, a writer takes its time before another writer commits, so intervals overlap
//! and leave gaps. This crate stores the same documents without these faults.
//!
//! # Usage
//!
//! ```no_run
//! use mongo_patterns::intervals::{IntervalRepository, Repository};
//! use mongo_patterns::mongodb::bson::{DateTime, Document, doc};
//!
//! # async fn f(database: mongo_patterns::mongodb::Database, sale: DateTime) -> mongo_patterns::Result<()> {
//! let prices = IntervalRepository::<Document>::builder(database.collection::<Document>("prices"))
//!     .id_field("item")
//!     .build()?;
//! prices.ensure_indexes().await?; // once, at the start of the service
//!
//! prices.insert(&doc! { "item": "pants", "price": 5 }).await?; // valid from now
//! if let Some(now) = prices.get("pants").await? {
//!     let price = doc! { "$set": { "price": 7 } };
//!     prices.update("pants", price).expecting(now.valid_from).await?; // only if it was not changed since
//! }
//! let sold = prices.as_of("pants", sale).await?; // the price at the time of the sale
//! let history = prices.intervals("pants").newest_first().limit(20).page().await?;
//! prices.end("pants").await?; // no price is valid any more
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! A change updates the valid document in place by one `findAndModify`, and inserts its previous content with a new `_id`
//! and its end, in one transaction. So the valid document keeps its `_id`.
//!
//! The time of an insert and of an end is the server's. A change takes the client's time if it is within a second of the
//! server's clock, else the server's. If a clock that was ahead, by up to a minute, began the present interval, the next one
//! begins 1 ms after it.
//!
//! # Scheduled changes
//!
//! [`from`](action::Update::from) sets the start of a write, in the past or the future. A scheduled document is stored at
//! once with `isValid: false`, and the document before it ends when it begins. The current document is the one whose
//! interval contains the time of the server. [`get`](IntervalRepository::get) and [`as_of`](IntervalRepository::as_of)
//! decide by the interval, and so must other programs, by `{ validFrom: { $lte: now }, validTo: { $gt: now } }`.
//!
//! `isValid` marks it, as in the manual, but nothing runs when a scheduled document begins. The next write of the id moves
//! the mark, or [`repair`](IntervalRepository::repair). Until then `isValid: true` is on the document before.
//!
//! Transactions need a replica set, for which one node is enough, or a sharded cluster.
//!
//! # Lanes
//!
//! Each id has a lane: a queue of the calls that write it, with one in flight. So transactions of one process never
//! conflict, and an id that another client has locked occupies one connection. See also what is true of [all
//! lanes](mongo_patterns_core::action#lanes).
//!
//! # Guarantees
//!
//! With any number of writers, in any number of processes that write through this crate:
//!
//! - Every change that returns `Ok` has an interval of its own. A write that fails has no effect, unless its [outcome is
//!   unknown](mongo_patterns_core::Error::is_outcome_unknown).
// proof: intervals::concurrent::sixty_four_writers_of_one_id_lose_nothing, faults::table::every_operation_with_a_fault_and_a_drop
//! - An id has at most one valid document. Its intervals do not overlap, and a change leaves no gap: an interval ends when the next
//!   one begins. Only an [`end`](IntervalRepository::end) before an [`insert`](IntervalRepository::insert) leaves one.
// proof: intervals::scheduled::a_chosen_start_divides_one_interval_and_collides_with_none, intervals::scheduled::concurrent_inserts_into_one_gap_do_not_overlap, intervals::scheduled::all_calls_with_starts_leave_no_overlap, intervals::concurrent::sixty_four_writers_of_one_id_lose_nothing, intervals::concurrent::all_calls_together_leave_no_overlap, intervals::concurrent::an_insert_after_an_end_that_it_has_not_read_starts_again
//! - A write that [expects](action::Update::expecting) a start has no effect if the valid document has another start, and is
//!   safe to retry.
// proof: intervals::concurrent::read_change_replace_with_an_expected_start_loses_nothing, intervals::calls::a_change_at_another_start_is_refused_and_has_no_effect
//!
//! - A write changes only the interval that contains its start, so a scheduled change stays until it begins.
// proof: intervals::scheduled::a_price_that_begins_later_is_not_the_current_one, intervals::scheduled::a_scheduled_price_begins_by_itself_and_the_next_write_moves_the_mark
//!
//! Not guaranteed: a program that changes a valid document without this crate changes it for the whole of its interval.
//!
//! # Cost
//!
//! Each round trip examines at most one document, however many intervals an id has.
//!
//! | call | round trips | documents examined |
//! |---|---|---|
//! | [`insert`](IntervalRepository::insert) | 3; 4 with a start; 2 more if intervals begin later | 1 each |
//! | [`update`](IntervalRepository::update), [`replace`](IntervalRepository::replace) | 3; 5 if the clock of the client differs by more than a second; 6 if a scheduled interval has begun since the last write | 1 each |
//! | the same with a start | 4 in the current interval, 5 in the future of it, 6 in another one; 1 more if a scheduled interval has begun since the last write | 1 each |
//! | [`end`](IntervalRepository::end) | 1; 6 if a scheduled interval has begun since the last write | 1 |
//! | [`get`](IntervalRepository::get), [`as_of`](IntervalRepository::as_of) | 1 | 1 |
//! | [`intervals`](IntervalRepository::intervals) | 1 a page | those of the page, and 1 more |
//! | [`verify`](IntervalRepository::verify), [`repair`](IntervalRepository::repair) | a scan, and 2 or 3 for each id with a problem | all |
//! | [`migrate_existing`](IntervalRepository::migrate_existing) | 6, or 8 the first time, 2 for each further 1000 documents, and 1 for each 1000 to correct | all, twice |
//!
//! The first write of a repository has two more, which check the deployment and the indexes.
//!
//! # Indexes
//!
//! A unique partial index on the id contains the valid documents, and a unique index on the id and the start contains all.
//! Reads and writes name them in hints, so that the server refuses them if one is missing. A unique index of your own needs
//! `isValid: true` as its partial filter, because the intervals of an id repeat the values of the document.

pub mod action;
mod builder;
mod form;
mod migrate;
mod query;
mod read;
mod repair;
mod repository;
mod results;
mod settings;
mod token;
mod write;

pub use builder::IntervalRepositoryBuilder;
pub use mongo_patterns_core::{Progress, Repository};
pub use repair::finding::{Finding, Problem, Repaired, Unrepaired};
pub use repository::IntervalRepository;
pub use results::{Begun, Corrections, Ended, Interval, Migrated};
pub use token::IntervalToken;
