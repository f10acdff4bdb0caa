//! Tests of the intervals pattern.

pub(crate) mod calls;
pub(crate) mod concurrent;
pub(crate) mod migrate;
mod scheduled;
pub(crate) mod values;
