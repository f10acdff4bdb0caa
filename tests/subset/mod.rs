//! Tests of the subset pattern.

pub(crate) mod computed;
pub(crate) mod computed_values;
pub(crate) mod concurrent;
pub(crate) mod duplicates;
pub(crate) mod follower;
pub(crate) mod joined_inserts;
pub(crate) mod migrate_layout;
pub(crate) mod migrated_parents;
pub(crate) mod migration;
pub(crate) mod migration_large;
pub(crate) mod migration_live;
pub(crate) mod migration_skipped;
pub(crate) mod model;
pub(crate) mod model_kinds;
pub(crate) mod operators;
pub(crate) mod rated;
pub(crate) mod reads;
pub(crate) mod several;
pub(crate) mod several_concurrent;
pub(crate) mod several_pages;
pub(crate) mod several_upkeep;
pub(crate) mod tampered_tokens;
pub(crate) mod transactional;
pub(crate) mod unmigrated;
pub(crate) mod values;
pub(crate) mod writes;
