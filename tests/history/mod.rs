//! Tests of the history pattern.

pub(crate) mod by_id;
pub(crate) mod by_id_migrate;
pub(crate) mod calls;
pub(crate) mod concurrent;
pub(crate) mod described;
pub(crate) mod follow;
pub(crate) mod insert_many;
pub(crate) mod joined;
pub(crate) mod migrate;
pub(crate) mod model;
pub(crate) mod reads;
pub(crate) mod repair;
pub(crate) mod update_many;
pub(crate) mod values;
