//! The protocols of writes.

pub(crate) mod open;
pub(crate) mod push;
pub(crate) mod retried;
