//! Settings with parts of their own: each is an option in JSON, and a setting in the catalog.
//!
//! They are not part of `settings`, which a fuzz target includes without the crates of the patterns.

pub(crate) mod further;
pub(crate) mod references;
