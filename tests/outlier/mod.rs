//! Tests of the outlier pattern.

pub(crate) mod equal_elements;
pub(crate) mod faults;
pub(crate) mod insert;
pub(crate) mod joined;
pub(crate) mod joined_errors;
mod known;
pub(crate) mod migrate_existing;
pub(crate) mod mixed;
pub(crate) mod model;
pub(crate) mod push;
pub(crate) mod reads;
pub(crate) mod refresh;
pub(crate) mod repair;
mod room;
pub(crate) mod update_element;
pub(crate) mod update_element_model;
pub(crate) mod verify;
