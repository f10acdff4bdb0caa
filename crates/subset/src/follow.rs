//! The follower of a change stream, which refreshes subsets after writes of other programs.
//!
//! # Design
//!
//! ## Why is the position stored after the refreshes, both with the write concern `majority`?
//!
//! A refresh that runs twice does no harm. A refresh that is missing, because the position was stored before it or
//! because a failover has rolled it back, would never be repaired.
//!
//! ## Why does a follower write a subset that is already correct?
//!
//! Only the incremented version stops a slower refresh of another writer, which may have read older children.
//!
//! ## Why is a follower current at a cluster time, and not when no changes arrive?
//!
//! An empty batch does not show up to which time the server has read. The token of a change stream begins with the
//! cluster time up to which it has been read.

mod backoff;
pub(crate) mod change;
pub(crate) mod follower;
mod position;
mod record;
mod setup;
pub(crate) mod until;
