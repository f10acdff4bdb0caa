//! The stored form: children, positions among them, and bounds of an index.

pub(crate) mod bound;
pub(crate) mod child;
pub(crate) mod token;
