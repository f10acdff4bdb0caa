//! Tests of the example `service`.

pub(crate) mod pages;
pub(crate) mod process;
pub(crate) mod support;
