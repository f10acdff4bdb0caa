//! MongoDB's schema design patterns as typed repositories.
#[cfg(feature = "bucket")]
pub use mongo_patterns_bucket as bucket;
pub use mongo_patterns_core::{EncodeKey, Error, ErrorKind, Key, Result, RetryPolicy};
pub use mongodb;
