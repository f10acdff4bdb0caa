//! The stored form, pure.

pub(crate) mod diff;
pub(crate) mod document;
pub(crate) mod token;
pub(crate) mod update;
