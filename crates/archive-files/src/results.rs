//! The results of the calls.

use mongodb::bson::{DateTime, RawDocumentBuf};
use serde::{Serialize, Serializer};

/// A file with archived documents; returned by [`files`](crate::FileArchive::files).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArchiveFile {
    /// Its name in the store, after the prefix.
    pub name: String,
    /// The number of its documents.
    pub documents: u64,
    /// Its size.
    pub bytes: u64,
    /// The age of its oldest document.
    pub oldest: DateTime,
    /// The age of its newest document.
    pub newest: DateTime,
    /// The time at which it was written, by the clock of the client.
    pub archived_at: DateTime,
    /// The SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
}

/// How many documents a call has moved, and left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Moved {
    /// The documents that it moved.
    pub documents: u64,
    /// Their bytes, before they are compressed.
    pub bytes: u64,
    /// The age of the oldest of them.
    #[serde(serialize_with = "text_of_date")]
    pub oldest: Option<DateTime>,
    /// The documents that stay because others wrote them all the time. A further run may move them.
    pub busy: u64,
}

fn text_of_date<S: Serializer>(date: &Option<DateTime>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = date.map(|date| date.try_to_rfc3339_string().unwrap_or_default());
    text.serialize(serializer)
}

impl Moved {
    /// Counts documents that move.
    pub(crate) fn count(documents: &[RawDocumentBuf], age_field: &str) -> Self {
        let ages = documents.iter().filter_map(|one| one.get_datetime(age_field).ok());
        Self {
            documents: documents.len() as u64,
            bytes: documents.iter().map(|one| one.as_bytes().len() as u64).sum(),
            oldest: ages.min(),
            busy: 0,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.documents += other.documents;
        self.bytes += other.bytes;
        self.oldest = self.oldest.into_iter().chain(other.oldest).min();
        self.busy += other.busy;
    }
}

/// The result of a deletion of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeletedFiles {
    /// The number of their documents.
    pub documents: u64,
}
