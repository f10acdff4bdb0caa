//! The results of the calls.

use serde::Serialize;

/// What a flush has added.
///
/// ```
/// // For a fake in tests.
/// let mut flushed = mongo_patterns::counters::Flushed::default();
/// flushed.documents = 3;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Flushed {
    /// The number of documents whose counts were added.
    pub documents: u64,
    /// The number of documents that do not exist, whose counts are dropped, unless the counters
    /// [insert](crate::CountersBuilder::upsert) them.
    pub missing: u64,
    /// The number of documents that refused their counts, which stay in memory. Only a [run](crate::action::Run::on_flush) returns
    /// it: for a [`flush`](crate::Counters::flush) it is an error.
    pub refused: u64,
}
