//! The content of files, and their records in the catalog. Pure.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use mongo_patterns_core::migration::number;
use mongo_patterns_core::{Error, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::error::Error as DriverError;
use sha2::{Digest, Sha256};

use crate::results::ArchiveFile;

/// The state of a record whose file is written, or was when its process died.
pub(crate) const PENDING: &str = "pending";
/// The state of a file that is a part of the archive.
pub(crate) const STORED: &str = "stored";
/// The state of a file that is no part of it: it is deleted.
pub(crate) const DELETED: &str = "deleted";

/// Returns the `_id` of the record of a file.
pub(crate) fn record_id(collection: &str, name: impl Into<Bson>) -> Document {
    doc! { "kind": "archive_file", "collection": collection, "name": name }
}

/// Returns the name of the file of a record.
pub(crate) fn name_of(record: &RawDocument) -> String {
    let id = record.get_document("_id");
    let name = id.and_then(|id| id.get_str("name").map(str::to_owned));
    name.unwrap_or_default()
}

/// Reads a record.
///
/// # Errors
/// [`Corrupt`](mongo_patterns_core::ErrorKind::Corrupt) if another program has changed it.
pub(crate) fn file_of(record: &RawDocument) -> Result<ArchiveFile> {
    let name = name_of(record);
    let record = Document::try_from(record).map_err(DriverError::from)?;
    let date = |field| record.get_datetime(field).copied().ok();
    let fields = (
        date("oldest"),
        date("newest"),
        date("archived"),
        record.get_str("sha256"),
    );
    let (Some(oldest), Some(newest), Some(archived_at), Ok(sha256)) = fields else {
        let text = "the record of a file in the catalog lacks a field: restore the record from a backup";
        return Err(Error::corrupt(name.into(), "", text));
    };
    Ok(ArchiveFile {
        name,
        documents: number(&record, "documents"),
        bytes: number(&record, "bytes"),
        oldest,
        newest,
        archived_at,
        sha256: sha256.to_owned(),
    })
}

/// Returns the record of a file that is not written yet.
pub(crate) fn pending_record(file: &ArchiveFile, collection: &str) -> Result<RawDocumentBuf> {
    let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let record = doc! {
        "_id": record_id(collection, file.name.as_str()), "state": PENDING,
        "documents": long(file.documents), "bytes": long(file.bytes),
        "oldest": file.oldest, "newest": file.newest, "archived": file.archived_at, "sha256": &file.sha256,
    };
    Ok(RawDocumentBuf::try_from(&record).map_err(DriverError::from)?)
}

/// Returns a new file with documents, and its content.
pub(crate) fn encode(documents: &[RawDocumentBuf], age_field: &str) -> io::Result<(ArchiveFile, Vec<u8>)> {
    let mut encoder = zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
    for document in documents {
        encoder.write_all(document.as_bytes())?;
    }
    let content = encoder.finish()?;
    let ages = || documents.iter().filter_map(|one| one.get_datetime(age_field).ok());
    let file = ArchiveFile {
        name: format!("{}.bson.zst", ObjectId::new()),
        documents: documents.len() as u64,
        bytes: content.len() as u64,
        oldest: ages().min().unwrap_or(DateTime::MIN),
        newest: ages().max().unwrap_or(DateTime::MAX),
        archived_at: DateTime::now(),
        sha256: sha256(&content),
    };
    Ok((file, content))
}

/// Returns the documents of a file. `None` if the content does not fit the record.
pub(crate) fn decode(content: &[u8], file: &ArchiveFile) -> Option<Vec<RawDocumentBuf>> {
    if content.len() as u64 != file.bytes || sha256(content) != file.sha256 {
        return None;
    }
    let bytes = zstd::decode_all(content).ok()?;
    let (mut rest, mut documents) = (bytes.as_slice(), Vec::new());
    while let Some(length) = rest.first_chunk() {
        let length = usize::try_from(i32::from_le_bytes(*length)).ok()?;
        let (document, others) = rest.split_at_checked(length)?;
        documents.push(RawDocumentBuf::from_bytes(document.to_vec()).ok()?);
        rest = others;
    }
    (rest.is_empty() && documents.len() as u64 == file.documents).then_some(documents)
}

fn sha256(content: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(content) {
        // A string takes all that is written.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
