//! The migration of existing collections.

pub(crate) mod existing;
