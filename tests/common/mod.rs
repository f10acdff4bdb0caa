//! Tests of several patterns and of the testkit, and shared code of the tests.

pub(crate) mod catalog;
pub(crate) mod collections;
pub(crate) mod debug;
pub(crate) mod explain;
pub(crate) mod extended_json;
pub(crate) mod followers;
pub(crate) mod hostile_input;
pub(crate) mod ids;
pub(crate) mod large;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod migrations;
pub(crate) mod model;
pub(crate) mod numeric_names;
pub(crate) mod plans;
#[path = "../../crates/cli/tests/router.rs"]
pub(crate) mod router;
pub(crate) mod setup;
pub(crate) mod sharding;
pub(crate) mod sharding_cluster;
pub(crate) mod spawned;
pub(crate) mod steps;
pub(crate) mod support;
pub(crate) mod testkit;
pub(crate) mod tracing_spans;
pub(crate) mod transaction_bounds;
