//! Writes of current documents and of the copies of their revisions.
//!
//! # Design
//!
//! ## Why is the current revision also in the revisions?
//!
//! MongoDB's manual stores it: its recipe copies the document after the update. So a copy never changes, the newest copy can
//! be compared with the current document, and a deleted document keeps its last revision.
//!
//! ## Why does the update come before the copy?
//!
//! Only the server knows the result of update operators. So no revision is stored that never took effect.
//!
//! ## Why does an insert of many documents read the clock of the server?
//!
//! Only an update has the server's clock, and one update command cannot insert many documents. A [follower](crate::follow)
//! would take a second command for a change of another program.
//!
//! ## Why does a deletion first change the document, and then delete it?
//!
//! The change gives it the number and the time of its last revision by the server's clock, and returns them. The document
//! keeps its content until it is deleted, because a validator of the application can require it; the revision is stored
//! without it.

pub(crate) mod behind;
pub(crate) mod change;
pub(crate) mod delete_old;
pub(crate) mod insert;
pub(crate) mod insert_many;
pub(crate) mod joined;
mod others;
pub(crate) mod record;
pub(crate) mod restore;
pub(crate) mod update_many;
pub(crate) mod upsert;
