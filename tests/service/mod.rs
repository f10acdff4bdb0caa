//! Tests of the example `service`.

pub(crate) mod connections;
pub(crate) mod origins;
pub(crate) mod pages;
pub(crate) mod process;
pub(crate) mod support;
