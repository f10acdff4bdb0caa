//! The migrations between references with copies, and documents with the ids of their sources alone.

pub(crate) mod from_references;
pub(crate) mod to_references;

/// The default number of documents that one command migrates.
pub(crate) const CHUNK: u64 = 1000;
