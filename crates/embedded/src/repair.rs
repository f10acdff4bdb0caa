//! The check of stored parents.

pub(crate) mod finding;
pub(crate) mod scan;
