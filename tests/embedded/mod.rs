//! Tests of the embedded pattern.

pub(crate) mod calls;
pub(crate) mod concurrent;
pub(crate) mod grandchild;
pub(crate) mod migration;
pub(crate) mod migration_refused;
pub(crate) mod model;
pub(crate) mod operators;
pub(crate) mod upsert;
pub(crate) mod values;
pub(crate) mod verify;
