//! The filters, updates, projections and pipelines, as pure functions.

mod elements;
mod filters;
mod push;
mod repair;
mod summaries;
mod update;

pub(crate) use elements::*;
pub(crate) use filters::*;
pub(crate) use push::*;
pub(crate) use repair::*;
pub(crate) use summaries::*;
pub(crate) use update::*;
