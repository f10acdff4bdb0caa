//! The shared parts of [mongo-patterns](https://docs.rs/mongo-patterns): the kit that its patterns are built with.
//!
//! Services import the facade crate `mongo-patterns`, which re-exports what they need from here:
//!
//! | module | content |
//! |---|---|
//! | [`action`] | what the methods of a repository return; sessions, transactions, cancel safety |
//! | [`catalog`] | the settings of managed collections, stored in their database |
//! | [`error`] | one typed error, which never prints user values |
//! | [`index`] | index plans, which are created and never dropped |
//! | [`key`] | keys as prefixes of `_id`, none of which is the prefix of another |
//! | [`lease`] | leases: work that one process at a time does |
//! | [`list`] | lists, page by page with tokens, or as streams |
//! | `metrics` | the metrics of the calls, with the feature `metrics` |
//! | [`pages`] | the pages of any query, each document once |
//! | [`retry`] | retries bounded by count and by time, with jitter |
//! | [`sharding`] | the shard keys of a pattern, and the set-up of a sharded cluster |
//! | [`through`] | deletions and restorations through another repository of the same document |
//! | [`verify`] | verification and repair: findings, and what was done about them |
//!
//! Everything else is hidden: it serves the crates of the patterns, and can change with any version.

#![cfg_attr(docsrs, feature(doc_cfg))]

// The name of this crate in links of the documentation that macros write, here and in the patterns.
extern crate self as mongo_patterns_core;

pub mod action;
#[doc(hidden)] // documents that are old enough to leave their collection
pub mod age;
pub mod catalog;
#[doc(hidden)] // the one way to send a command, which is executed or listed
pub mod conn;
mod define;
#[doc(hidden)] // an `_id` of any type that a document can have
pub mod document_id;
pub mod error;
#[doc(hidden)] // field names that cannot become paths or operators
pub mod field;
#[doc(hidden)] // followers of change streams
pub mod follow;
#[doc(hidden)] // inserts of many documents without a transaction
pub mod in_order;
pub mod index;
mod into_id;
pub mod key;
#[doc(hidden)] // a queue for each document, with one write in flight
pub mod lanes;
pub mod lease;
mod limit;
pub mod list;
#[doc(hidden)] // what the calls count and measure
pub mod measure;
#[cfg(feature = "metrics")]
pub mod metrics;
#[doc(hidden)] // the steps of a migration
pub mod migration;
#[doc(hidden)] // documents of the caller
pub mod new_document;
#[cfg(test)]
mod offline;
pub mod pages;
mod plan;
mod problems;
pub mod progress;
mod redacted;
mod repository;
mod results;
pub mod retry;
#[doc(hidden)] // the commands of the driver
pub mod send;
mod setters;
#[doc(hidden)] // checks of the settings of a builder
pub mod settings;
mod shard_key;
pub mod sharding;
mod tasks;
pub mod through;
#[doc(hidden)] // texts of positions that have values of documents
pub mod token;
#[doc(hidden)] // a standalone, a replica set, or a sharded cluster
pub mod topology;
#[doc(hidden)] // transactions of our own
pub mod transaction;
#[doc(hidden)] // update operators of one element
pub mod update;
#[doc(hidden)] // numbers, arrays, equality and order of BSON values
pub mod value;
pub mod verify;
#[doc(hidden)] // documents of several versions
pub mod versions;

pub use catalog::{MigrationRecord, forget_migration, migrations};
#[doc(hidden)]
pub use document_id::DocumentId;
pub use error::{Error, ErrorKind, Remedy, Result};
#[doc(hidden)]
pub use field::FieldName;
pub use into_id::IntoId;
pub use key::{AsKey, EncodeKey, EncodedKey, Key};
pub use migration::{FoundInvalid, InvalidDocuments};
pub use plan::{PlanWarning, Planned, PlannedCommand};
pub use progress::Progress;
#[doc(hidden)]
pub use repository::sealed;
pub use repository::{Repository, Validator};
pub use results::{Deleted, Inserted, Moved, Removed, Updated};
pub use retry::RetryPolicy;
pub use tasks::drain;

#[doc(hidden)]
pub use {
    lanes::hints, transaction::rewrite, value::array, value::bound, value::number, value::order, value::size,
    value::stored,
};
