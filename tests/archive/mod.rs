//! Tests of the archive: old documents in a second collection.

pub(crate) mod books;
pub(crate) mod books_concurrent;
pub(crate) mod calls;
pub(crate) mod concurrent;
pub(crate) mod lost_cursor;
pub(crate) mod pages;
pub(crate) mod policies;
pub(crate) mod revisions;
pub(crate) mod run;
pub(crate) mod sales;
pub(crate) mod trash;
pub(crate) mod trash_concurrent;
pub(crate) mod trash_entries;
pub(crate) mod users;
pub(crate) mod values;
