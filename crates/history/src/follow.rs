//! The follower of a change stream, which stores the writes of other programs as revisions.
//!
//! # Design
//!
//! ## How does a follower tell the writes of other programs from those of a repository?
//!
//! By the images of the document before and after a write. A repository increments the number of the revision in the same
//! write. So a write that changes only the content is by another program.
//!
//! ## How are two fast writes of another program two revisions?
//!
//! The server stores an image of the document after each write. The follower stores the images as revisions, and gives the
//! current document the number of the last one in the same transaction. If the document was written again since, its next
//! images have an earlier number, so the follower remembers the numbers.
//!
//! ## What happens to a change that does not follow the newest revision?
//!
//! A repository, another follower, or this one before it was stopped, has stored a revision with its result. The current
//! document is compared with the newest revision, and stored as the next one if it differs. So a change that is processed
//! twice has no second revision.

pub(crate) mod documents;
pub(crate) mod event;
mod record;
mod states;
