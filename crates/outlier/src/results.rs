//! What calls return.

pub(crate) mod analysis;
