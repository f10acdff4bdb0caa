//! Migrations between references, where each child is a document that names its parent, and embedded children.
//!
//! # Design
//!
//! ## Why do these migrations keep no record of their position?
//!
//! The data shows it. A parent that has its children is skipped, and a document that exists stays. So a migration that was
//! interrupted is simply run again.

pub(crate) mod common;
pub(crate) mod from_references;
pub(crate) mod to_references;
