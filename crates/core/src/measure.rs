//! What the calls count and measure. Without the feature `metrics`, all functions do nothing.
//!
//! # Design
//!
//! ## How do the protocols know the labels?
//!
//! A task-local value has the labels of the operation that is being polled, as the current span of `tracing`. So a retry or
//! a refresh needs no argument for them.

#[cfg(not(feature = "metrics"))]
mod disabled;
#[cfg(feature = "metrics")]
mod enabled;

#[cfg(not(feature = "metrics"))]
use disabled as measures;
#[cfg(feature = "metrics")]
use enabled as measures;

pub use measures::{
    TakenOver, Waiting, conflict, followed, follower_lag, inherit, joined, migrated, operation, overflow_documents,
    refreshed, retry, spilled,
};
