//! The protocols of writes.

pub(crate) mod batch;
pub(crate) mod batching;
pub(crate) mod groups;
pub(crate) mod key_write;
pub(crate) mod one_item;
pub(crate) mod store;
