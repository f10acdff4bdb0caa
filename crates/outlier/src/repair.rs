//! Repair: finds what is wrong with stored documents, and rewrites them.

pub(crate) mod check;
pub(crate) mod finding;
pub(crate) mod fix;
pub(crate) mod rewrite;
pub(crate) mod scan;
pub(crate) mod standalone;
