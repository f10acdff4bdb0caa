//! What all crates of [mongo-patterns](https://docs.rs/mongo-patterns) share.
//!
//! Services import the facade crate `mongo-patterns`, which re-exports what they need from here: [`Error`], the
//! [key] types and [`RetryPolicy`]. The rest serves the crates of the single patterns:
//!
//! | module | what |
//! |---|---|
//! | [`error`] | one typed error that never prints user values |
//! | [`key`] | keys as `_id` prefixes of which none is the prefix of another |
//! | [`document_id`] | an `_id` of any type that a document can have |
//! | [`field`] | field names that cannot become paths or operators |
//! | [`retry`] | retry bounded by count and by time, with jitter |
//! | [`index`] | index plans that are created but never dropped |
//! | [`action`] | how a call becomes a future with a span and error context |
//! | [`plan`] | what a call would send |
//! | [`find`] | reads with or without the caller's session |
//! | [`transaction`] | transactions of our own |
//! | [`gates`] | keeps the writes of this process away from such a transaction |
//! | [`array`](mod@array) | values that are encoded once, into arrays of documents |
//! | [`moves`] | a record of how far a move is |
//! | [`chunks`] | the documents of a collection, some at a time |
//! | [`progress`] | how far a call is |
//! | [`rewrite`] | arrays over several documents, written anew |

pub mod action;
pub mod array;
pub mod chunks;
pub mod document_id;
pub mod error;
pub mod field;
pub mod find;
pub mod gates;
pub mod index;
pub mod key;
pub mod moves;
pub mod plan;
pub mod progress;
pub mod retry;
pub mod rewrite;
pub mod transaction;

pub use document_id::DocumentId;
pub use error::{Error, ErrorKind, Result};
pub use field::FieldName;
pub use key::{EncodeKey, EncodedKey, Key};
pub use plan::PlannedCommand;
pub use progress::Progress;
pub use retry::RetryPolicy;
