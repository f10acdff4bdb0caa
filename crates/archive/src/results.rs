//! The results of the calls.

use mongodb::bson::{Bson, DateTime, RawDocumentBuf};
use serde::{Serialize, Serializer};

use crate::related::RelatedDocuments;
use crate::token::{ArchiveToken, TrashToken};

pub(crate) const NOT_DECODED: &str =
    "a stored document cannot be read as the type of the documents: change the type, or correct the document";

/// A document that a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found<D> {
    /// The document.
    pub document: D,
    /// Whether it is in the archive.
    pub is_archived: bool,
}

impl<D> Found<D> {
    /// Creates it, for example in a fake of an archive.
    pub fn new(document: D, is_archived: bool) -> Self {
        Self { document, is_archived }
    }
}

/// A page of documents of both collections; returned by [`find`](crate::Archive::find).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FoundPage<D> {
    /// The documents, in the order of their ages.
    pub documents: Vec<Found<D>>,
    /// The position after the last of them. `None` if there are no more.
    pub next: Option<ArchiveToken>,
}

/// How many documents a run has moved, and left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Moved {
    /// The documents that it moved.
    pub documents: u64,
    /// The [related](crate::ArchiveBuilder::related) documents that moved with them.
    pub related: u64,
    /// The bytes of all of these.
    pub bytes: u64,
    /// The age of the oldest of the documents.
    #[serde(serialize_with = "text_of_date")]
    pub oldest: Option<DateTime>,
    /// The documents that stay because the other collection has one with their `_id`. [`verify`](crate::Archive::verify)
    /// names them.
    pub conflicts: u64,
    /// The documents that stay because others wrote them for the time of the retry policy. A further run may move them.
    pub busy: u64,
    /// The documents that stay because they and their related documents are too large to move together.
    pub too_large: u64,
}

fn text_of_date<S: Serializer>(date: &Option<DateTime>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = date.map(|date| date.try_to_rfc3339_string().unwrap_or_default());
    text.serialize(serializer)
}

impl Moved {
    /// Counts documents that move, with their related ones.
    pub(crate) fn count(&mut self, documents: &[RawDocumentBuf], related: &[RelatedDocuments], age_field: &str) {
        let related = || related.iter().flat_map(|one| &one.documents);
        self.documents = documents.len() as u64;
        self.related = related().count() as u64;
        self.bytes = documents
            .iter()
            .chain(related())
            .map(|one| one.as_bytes().len() as u64)
            .sum();
        self.oldest = documents
            .iter()
            .filter_map(|one| one.get_datetime(age_field).ok())
            .min();
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.documents += other.documents;
        self.conflicts += other.conflicts;
        self.busy += other.busy;
        self.too_large += other.too_large;
        self.related += other.related;
        self.bytes += other.bytes;
        self.oldest = self.oldest.into_iter().chain(other.oldest).min();
    }
}

/// The documents that a run would archive; returned by [`due`](crate::Archive::due).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due {
    /// The number of documents.
    pub documents: u64,
    /// The time of the oldest one.
    pub oldest: Option<DateTime>,
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// Whether the document was not in the archive or trash, but in the collection. A retry of a restore that took effect finds it
    /// there.
    pub already_there: bool,
}

/// The result of a deletion in the archive, or in a trash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeletedArchived {
    /// The number of documents.
    pub documents: u64,
}

/// A deleted document.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrashEntry<D> {
    /// The document.
    pub document: D,
    /// The time of the deletion, by the clock of the client.
    pub deleted_at: DateTime,
    /// Who deleted it, if the deletion had a value [for it](crate::action::Delete::by).
    pub deleted_by: Option<Bson>,
}

/// A page of deleted documents; returned by [`list`](crate::Trash::list).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrashPage<D> {
    /// The entries, the newest first.
    pub entries: Vec<TrashEntry<D>>,
    /// The position after the last of them. `None` if there are no more.
    pub next: Option<TrashToken>,
}
