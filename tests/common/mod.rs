//! What the tests of several patterns share.

pub(crate) mod explain;
pub(crate) mod followers;
pub(crate) mod metrics;
pub(crate) mod model;
pub(crate) mod pace;
pub(crate) mod plans;
pub(crate) mod repositories;
#[path = "../../crates/cli/tests/router.rs"]
pub(crate) mod router;
pub(crate) mod standalone;
pub(crate) mod support;
