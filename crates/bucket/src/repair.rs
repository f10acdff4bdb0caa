//! Verification and repair.

pub(crate) mod check;
pub(crate) mod finding;
pub(crate) mod fix;
pub(crate) mod run;
pub(crate) mod scan;
