//! The stored form of buckets. Pure.

pub(crate) mod chain;
pub(crate) mod document;
pub(crate) mod id;
pub(crate) mod item;
pub(crate) mod item_id;
pub(crate) mod layout;
pub(crate) mod token;
pub(crate) mod validator;
