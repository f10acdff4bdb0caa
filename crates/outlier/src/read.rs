//! The reads.

pub(crate) mod contains;
pub(crate) mod elements;
pub(crate) mod primary;
