//! What both test programs use: collections of each pattern, readers of plans and metrics, and a server in front of another.

#![allow(clippy::unwrap_used, missing_docs, missing_debug_implementations)]

pub mod archive;
pub mod bucket;
pub mod common;
pub mod cursors;
pub mod embedded;
pub mod explain;
pub mod followers;
pub mod history;
pub mod hooked_store;
pub mod intervals;
pub mod lanes;
pub mod metrics;
pub mod model;
pub mod outlier;
pub mod pace;
pub mod plans;
pub mod random;
pub mod reference;
pub mod repositories;
#[path = "../../crates/cli/tests/router.rs"]
pub mod router;
pub mod schema;
pub mod standalone;
pub mod subset;
