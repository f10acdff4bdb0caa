//! Tests of the example `service`.

pub(crate) mod choices;
pub(crate) mod connections;
pub(crate) mod metrics;
pub(crate) mod orders;
pub(crate) mod origins;
pub(crate) mod pages;
pub(crate) mod policies;
pub(crate) mod process;
pub(crate) mod removals;
pub(crate) mod support;
pub(crate) mod time_outs;
