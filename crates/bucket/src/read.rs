//! The protocols of reads.

pub(crate) mod items;
pub(crate) mod keys;
pub(crate) mod time_range;
