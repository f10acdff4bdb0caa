//! Tests of migrations that run once, and of the lease that they use.

pub(crate) mod concurrent;
pub(crate) mod dropped;
pub(crate) mod failover;
pub(crate) mod lease;
pub(crate) mod order;
pub(crate) mod processes;
pub(crate) mod refused;
pub(crate) mod steps;
pub(crate) mod support;
