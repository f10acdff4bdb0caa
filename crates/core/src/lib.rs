//! What all crates of [mongo-patterns](https://docs.rs/mongo-patterns) share.
//!
//! Services import the facade crate `mongo-patterns`, which re-exports what they need from here:
//!
//! | module | what |
//! |---|---|
//! | [`error`] | one typed error that never prints user values |
//! | [`key`] | keys as `_id` prefixes of which none is the prefix of another |
//! | [`retry`] | retry bounded by count and by time, with jitter |
//! | [`index`] | index plans that are created but never dropped |
//! | [`action`] | what a call becomes when it is awaited |
//! | [`plan`] | what a call would send |
//!
//! The rest serves the crates of the single patterns. It is hidden here, and may change with any version.

pub mod action;
#[doc(hidden)] // values that are encoded once, into arrays of documents
pub mod array;
#[doc(hidden)] // changes of single fields
pub mod change;
#[doc(hidden)] // the documents of a collection, some at a time
pub mod chunks;
#[doc(hidden)] // an `_id` of any type that a document can have
pub mod document_id;
pub mod error;
#[doc(hidden)] // field names that cannot become paths or operators
pub mod field;
#[cfg(feature = "__fuzzing")]
#[doc(hidden)] // checks that take any bytes
pub mod fuzzing;
pub mod index;
mod into_id;
pub mod key;
#[doc(hidden)] // per-key locks within one process
pub mod key_locks;
#[doc(hidden)] // a record of how far a move is
pub mod moves;
pub mod plan;
pub mod progress;
mod redacted;
pub mod retry;
#[doc(hidden)] // arrays over several documents, written anew
pub mod rewrite;
#[doc(hidden)] // concurrent work that stops while the caller has an item
pub mod rounds;
#[doc(hidden)] // commands with or without a session
pub mod send;
#[doc(hidden)] // cancel-safe commands in a session
pub mod session;
#[doc(hidden)] // the limit of a document
pub mod size;
#[doc(hidden)] // transactions of our own
pub mod transaction;

#[doc(hidden)]
pub use change::FieldChange;
#[doc(hidden)]
pub use document_id::DocumentId;
pub use error::{Error, ErrorKind, Result};
#[doc(hidden)]
pub use field::FieldName;
pub use into_id::IntoId;
pub use key::{AsKey, EncodeKey, EncodedKey, Key};
pub use plan::PlannedCommand;
pub use progress::Progress;
pub use retry::RetryPolicy;
