//! The stored form, pure.

pub(crate) mod copy;
pub(crate) mod document;
pub(crate) mod id;
pub(crate) mod source;
pub(crate) mod update;
