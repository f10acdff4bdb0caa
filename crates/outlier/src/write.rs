//! The protocols of writes.

pub(crate) mod delete;
pub(crate) mod insert;
pub(crate) mod joined;
pub(crate) mod overflow;
pub(crate) mod push;
pub(crate) mod remove;
pub(crate) mod retried;
pub(crate) mod update;
