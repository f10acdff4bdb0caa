//! The protocols of writes.

pub(crate) mod batch;
pub(crate) mod delete;
pub(crate) mod figures;
pub(crate) mod groups;
pub(crate) mod key_write;
pub(crate) mod old_items;
pub(crate) mod one_item;
pub(crate) mod removal;
mod restore;
pub(crate) mod sink;
pub(crate) mod store;
