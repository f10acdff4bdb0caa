//! Tests of documents of several versions, of migrations that run once, and of the lease that they use.

pub(crate) mod calls;
pub(crate) mod concurrent;
pub(crate) mod dropped;
pub(crate) mod failover;
pub(crate) mod find;
pub(crate) mod lease;
pub(crate) mod migrate;
pub(crate) mod order;
pub(crate) mod processes;
pub(crate) mod refused;
pub(crate) mod releases;
pub(crate) mod steps;
pub(crate) mod values;
pub(crate) mod verify;
