//! Finds, repairs and refreshes stale subsets.

pub(crate) mod finding;
pub(crate) mod rebuild;
pub(crate) mod scan;
