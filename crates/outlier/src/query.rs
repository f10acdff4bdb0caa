//! The filters, updates, projections and pipelines, as pure functions.

mod elements;
mod filters;
mod push;
mod repair;
mod summaries;
mod update;

pub(crate) use elements::{
    array_and_flag, empty, flag, has_element, main_size, overflow_size, overflow_total, remove, remove_from_overflow,
};
pub(crate) use filters::{
    by_id, by_position, claimed, flagged, id_only, newest_first, overflow_of, overflow_one, overflow_with, position,
    project, true_overflow_of, with_array, with_element, with_flag, with_room, without_array, without_flag,
};
pub(crate) use push::{evaluate, fill, main_before, overflow_before, push, push_all, set_flag, set_flag_and_conflict};
pub(crate) use repair::{Kept, array_of, lock_and_unlock, main_parts, set_main};
pub(crate) use summaries::{Names, main_summary, may_need_repair, overflow_summary, summaries};
pub(crate) use update::{flag_and_element, main_with, overflow_with_fields, update_in};
