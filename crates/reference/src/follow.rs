//! The follower of a change stream, which corrects copies after writes of other programs and of processes that died.
//!
//! # Design
//!
//! ## Why is one change stream enough for all collections?
//!
//! They are in one database. One stream has one position, so the stored position never includes a source before its
//! referring documents are processed.
//!
//! ## How does the follower find all wrong copies?
//!
//! It compares each copy with its source after the last write of either. After a write of a referring document, it reads the
//! document, and then its sources. After a write of a source, it reads the source, and then its copies. A later write has a
//! later change, so it needs no transaction.
//!
//! ## Why does it raise the version of a source?
//!
//! Another program has changed the source, and not its version. Its copies have the same version and old values. A slow
//! writer can still store such a copy. A higher version makes every such copy outdated, whenever it is stored.
//!
//! ## Why does it compare copies before it raises a version?
//!
//! A source is replaced more often than its copied fields change, and changes can be processed twice. A read of the copies
//! costs less than a write. An update that changes the version itself needs no comparison of values: copies of older
//! versions are updated, and only newer copies show that the version was lowered.
//!
//! ## Why does it end?
//!
//! Its own writes are changes too. It writes only where a copy differs, so a corrected copy and a raised version cause no
//! further write.

pub(crate) mod collections;
mod documents;
mod event;
mod sources;

use mongo_patterns_core::{ErrorKind, Result};
use mongodb::bson::Bson;

use crate::repository::Shared;

/// The number of sources whose copies are updated concurrently. A client has ten connections by default.
const CONCURRENCY: usize = 4;

/// Names the source in the error of a document that would become too large. Returns 0 for a source whose version has become
/// invalid.
fn of_source(shared: &Shared, copies: Result<u64>, source: &Bson) -> Result<u64> {
    const TOO_LARGE: &str = "with the copy of a source, a document would exceed MongoDB's limit of 16 MiB, and further copies may be outdated: see document_id() for the source, make the documents that refer to it or the copied fields smaller, then follow again";
    match copies {
        Err(error) if error.is_corrupt() => Ok(0),
        Err(error) if error.kind() == ErrorKind::TooLarge => Err(error
            .with_text(TOO_LARGE)
            .of_document(source.clone(), "")
            .of_collection(&shared.sources)),
        copies => copies,
    }
}
