//! Tests of the intervals pattern.

pub(crate) mod calls;
pub(crate) mod concurrent;
pub(crate) mod migrate;
pub(crate) mod values;
