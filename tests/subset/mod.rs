//! Tests of the subset pattern.

pub(crate) mod concurrent;
pub(crate) mod faults;
pub(crate) mod follower;
pub(crate) mod follower_killed;
pub(crate) mod follower_refused;
pub(crate) mod follower_support;
pub(crate) mod migrate_layout;
pub(crate) mod migration;
pub(crate) mod migration_live;
pub(crate) mod migration_skipped;
pub(crate) mod model;
pub(crate) mod naive;
pub(crate) mod reads;
pub(crate) mod repair;
pub(crate) mod shared_refresh;
pub(crate) mod support;
pub(crate) mod tampered_tokens;
pub(crate) mod total;
pub(crate) mod transactional;
pub(crate) mod unmigrated;
pub(crate) mod values;
pub(crate) mod writes;
