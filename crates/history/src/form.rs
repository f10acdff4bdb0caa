//! The stored form, pure.

pub(crate) mod diff;
pub(crate) mod document;
pub(crate) mod update;
