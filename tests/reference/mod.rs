//! Tests of the reference pattern.

pub(crate) mod arrays;
pub(crate) mod calls;
pub(crate) mod commands;
pub(crate) mod concurrent;
pub(crate) mod deletions;
pub(crate) mod follow;
pub(crate) mod follow_commands;
pub(crate) mod follow_concurrent;
pub(crate) mod insert_many;
pub(crate) mod interrupted;
pub(crate) mod long_arrays;
pub(crate) mod migrate;
pub(crate) mod migrate_forms;
pub(crate) mod migrate_interrupted;
pub(crate) mod migrate_live;
pub(crate) mod migrate_refused;
pub(crate) mod model;
pub(crate) mod other_writers;
pub(crate) mod repair;
pub(crate) mod sessions;
pub(crate) mod several;
pub(crate) mod source_key;
pub(crate) mod source_key_migrate;
pub(crate) mod source_key_setup;
pub(crate) mod values;
