//! A load of all patterns, with a follower and migrations. Acknowledged writes are stored exactly once, refused ones are
//! not stored, and unknown ones at most once. Histories of appends and reads are recorded and checked.

pub mod bucket;
pub mod calls;
pub mod embedded;
pub mod flat;
pub mod history;
pub mod history_changes;
pub mod outlier;
pub mod references;
pub mod stage;
pub mod subset;
