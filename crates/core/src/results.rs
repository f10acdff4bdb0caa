//! Results that several patterns share.

use mongodb::bson::{Bson, DateTime, RawDocumentBuf};
use serde::{Serialize, Serializer};

/// The result of an insert of a document.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Inserted {
    /// The `_id` of the document: its own, or a generated ObjectId. It is a user value.
    pub id: Bson,
}

crate::redacted_debug!(Inserted);

impl Inserted {
    /// Creates the result, for example in a fake of a repository.
    pub fn new(id: impl Into<Bson>) -> Self {
        Self { id: id.into() }
    }
}

/// The result of an update or a replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Updated {
    /// Whether it changed anything. `false` when the stored values are the given ones already.
    pub modified: bool,
}

impl Updated {
    /// Creates the result, for example in a fake of a repository.
    pub fn new(modified: bool) -> Self {
        Self { modified }
    }
}

/// The result of a removal of a part of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Removed {
    /// Whether something was removed. `false` is no error: a retry of a removal that took effect finds nothing.
    pub found: bool,
}

impl Removed {
    /// Creates the result, for example in a fake of a repository.
    pub fn new(found: bool) -> Self {
        Self { found }
    }
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Deleted {
    /// Whether there was something to delete. `false` is no error: a retry of a deletion that took effect finds nothing.
    pub found: bool,
    /// The number of deleted documents, in all collections of the repository unless the call says otherwise.
    pub documents: u64,
}

impl Deleted {
    /// Creates the result, for example in a fake of a repository.
    pub fn new(documents: u64) -> Self {
        Self {
            found: documents > 0,
            documents,
        }
    }
}

/// How many documents a call has moved between a collection and its archive, and left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Moved {
    /// The documents that it moved.
    pub documents: u64,
    /// The related documents that moved with them.
    pub related: u64,
    /// The bytes of all moved documents, before they are compressed.
    pub bytes: u64,
    /// The age of the oldest of the documents.
    #[serde(serialize_with = "text_of_date")]
    pub oldest: Option<DateTime>,
    /// The documents that stay because the other collection has one with their `_id`, or because a unique index of an
    /// archive refuses them. `verify()` names them.
    pub conflicts: u64,
    /// The documents that stay because others wrote them for the time of the retry policy. A further run may move them.
    pub busy: u64,
    /// The documents that stay because they and their related documents are too large to move together.
    pub too_large: u64,
}

impl Moved {
    /// Counts documents that move, by the field with their ages.
    #[doc(hidden)]
    #[must_use]
    pub fn of(documents: &[RawDocumentBuf], age_field: &str) -> Self {
        let ages = documents.iter().filter_map(|one| one.get_datetime(age_field).ok());
        Self {
            documents: documents.len() as u64,
            bytes: documents.iter().map(|one| one.as_bytes().len() as u64).sum(),
            oldest: ages.min(),
            ..Self::default()
        }
    }

    /// Adds the numbers of another part of the call.
    #[doc(hidden)]
    pub fn add(&mut self, other: Self) {
        self.documents += other.documents;
        self.related += other.related;
        self.bytes += other.bytes;
        self.oldest = self.oldest.into_iter().chain(other.oldest).min();
        self.conflicts += other.conflicts;
        self.busy += other.busy;
        self.too_large += other.too_large;
    }
}

fn text_of_date<S: Serializer>(date: &Option<DateTime>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = date.map(|date| date.try_to_rfc3339_string().unwrap_or_default());
    text.serialize(serializer)
}
