//! MongoDB's schema design patterns as typed repositories that are right under concurrency and faults.
//!
//! MongoDB's manual gives its patterns as shell recipes. Copied as they stand, they lose data when two writers meet. Here
//! each is a repository over the official driver: generic over your serde types, with the same documents in the
//! database, and with its guarantees tested against a real server.
//!
//! | pattern | feature | what it does |
//! |---|---|---|
//! | [`bucket`] | `bucket` | the history of a key in pages, one document a page |
//! | [`outlier`] | `outlier` | an array up to a threshold, the rest of the few long ones in a second collection |
//! | [`embedded`] | `embedded` | the few children of a parent, in its own document |
//! | [`subset`] | `subset` | the first few of a document's children in it, all of them in a second collection |
//!
//! All patterns share the [`Error`] and the [key types](key), and every call is an action in the driver's own style:
//! a builder of options that is awaited, and that runs in a session of yours when you give it one.
//!
//! The driver is re-exported as [`mongodb`], its BSON as `mongodb::bson`. TLS, authentication and the rest of the
//! connection are the driver's: you pass a [`Collection`](mongodb::Collection).
//!
//! # Observability
//!
//! Every call is a `tracing` span `mongo_patterns` at debug level, with the fields `pattern`, `operation`, `namespace`
//! and `attempts`. Neither spans nor the texts of errors ever hold keys or items.

#[cfg(feature = "bucket")]
pub use mongo_patterns_bucket as bucket;
pub use mongo_patterns_core::{Error, ErrorKind, Key, Result, RetryPolicy, index, key};
#[cfg(feature = "embedded")]
pub use mongo_patterns_embedded as embedded;
#[cfg(feature = "outlier")]
pub use mongo_patterns_outlier as outlier;
#[cfg(feature = "subset")]
pub use mongo_patterns_subset as subset;
pub use mongodb;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
