//! Verify and repair: summaries, findings, and the rewrite of a list.

pub(crate) mod check;
pub(crate) mod check_settings;
pub(crate) mod finding;
pub(crate) mod fix;
pub(crate) mod rewrite;
pub(crate) mod scan;
