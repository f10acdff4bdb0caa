//! The stored form of buckets. Everything here is pure.
//!
//! # Design
//!
//! ## Why are the stored form and the commands those of the manual?
//!
//! They are API: collections outlive programs. The golden documents in `tests/bucket/manual.rs` fix them.

pub(crate) mod chain;
pub(crate) mod document;
pub(crate) mod figures;
pub(crate) mod id;
pub(crate) mod item;
pub(crate) mod item_id;
pub(crate) mod layout;
pub(crate) mod new_ids;
pub(crate) mod token;
pub(crate) mod validator;
pub(crate) mod window;
