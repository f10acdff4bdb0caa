//! The migrations. The server does the work: only the ids of parents pass through the client.

mod check;
pub(crate) mod existing;
pub(crate) mod from_embedded;
pub(crate) mod layout;

/// The approximate number of children, or of parents, that one command migrates.
pub(crate) const CHUNK: u64 = 100_000;
