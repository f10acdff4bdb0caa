//! The follower of a change stream, which stores the writes of other programs as revisions.
//!
//! # Design
//!
//! ## How does a follower tell the writes of other programs from those of a repository?
//!
//! By the images of the document before and after a write. A repository increments the number of the revision in the same
//! write. A write that changes the content and not the number is that of another program. So the follower needs no command
//! for an update by a repository.
//!
//! ## How are two fast writes of another program two revisions?
//!
//! The server stores an image of the document after each write. The follower stores the images as revisions, and gives the
//! current document the number of the last one in the same transaction. The document can have been written again since. Its
//! next images then have one of the numbers that it had before, so the follower remembers them.
//!
//! ## What happens to a change that does not follow the newest revision?
//!
//! A repository has stored a revision with its result, another follower has stored it, or this one did before it was
//! stopped. The current document is compared with the newest revision, and stored as the next one if it differs. So a change that is
//! processed twice has no second revision.

pub(crate) mod documents;
pub(crate) mod event;
mod record;
mod states;
