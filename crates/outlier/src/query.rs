//! The filters, updates, projections and pipelines, as pure functions.

mod analysis;
mod elements;
mod filters;
mod push;
mod repair;
mod summaries;
mod update;

pub(crate) use analysis::{NOT_AN_ARRAY, analysis};
pub(crate) use elements::*;
pub(crate) use filters::*;
pub(crate) use push::*;
pub(crate) use repair::*;
pub(crate) use summaries::*;
pub(crate) use update::*;
