//! The follower of a change stream, which refreshes subsets after writes of other programs.
//!
//! # Design
//!
//! ## Why does a follower write a subset that is already correct?
//!
//! Only the incremented version stops a slower refresh of another writer, which may have read older children.

pub(crate) mod change;
pub(crate) mod children;
