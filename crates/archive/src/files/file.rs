//! The content of files, and their records in the catalog.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use mongo_patterns_core::migration::{Step, number};
use mongodb::bson::oid::ObjectId;
use mongodb::error::Error as DriverError;
use mongodb::options::FindOptions;
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::archive::Shared;
use super::problem::FileProblem;
use crate::prelude::*;

/// The state of a record whose file is written, or was when its process died.
pub(super) const PENDING: &str = "pending";
/// That of a file that is a part of the archive.
pub(super) const STORED: &str = "stored";
/// That of a file that is no part of it any more, or never was: it is deleted.
pub(super) const DELETED: &str = "deleted";

/// A file with archived documents; returned by [`FileArchive::files`](super::FileArchive::files).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArchiveFile {
    /// Its name in the store.
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

impl ArchiveFile {
    /// Reads a record.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) if another program has changed it.
    pub(super) fn of(record: &RawDocument) -> Result<Self> {
        let name = name_of(record);
        let record = Document::try_from(record).map_err(DriverError::from)?;
        let date = |field| record.get_datetime(field).copied().ok();
        let parts = (
            date("oldest"),
            date("newest"),
            date("archived"),
            record.get_str("sha256"),
        );
        let (Some(oldest), Some(newest), Some(archived_at), Ok(sha256)) = parts else {
            let text = "the record of a file in the catalog lacks a field: restore the record from a backup";
            return Err(Error::corrupt(name.into(), "", text));
        };
        Ok(Self {
            name,
            documents: number(&record, "documents"),
            bytes: number(&record, "bytes"),
            oldest,
            newest,
            archived_at,
            sha256: sha256.to_owned(),
        })
    }
}

/// Returns the name of the file of a record.
pub(super) fn name_of(record: &RawDocument) -> String {
    let name = record
        .get_document("_id")
        .and_then(|id| id.get_str("name").map(str::to_owned));
    name.unwrap_or_default()
}

/// A file that is not written yet.
pub(super) struct NewFile {
    pub(super) file: ArchiveFile,
    pub(super) documents: Vec<RawDocumentBuf>,
    pub(super) content: Vec<u8>,
}

impl NewFile {
    pub(super) async fn of(documents: Vec<RawDocumentBuf>, age: &str) -> Result<Self> {
        let ages = || documents.iter().filter_map(|document| document.get_datetime(age).ok());
        let (oldest, newest) = (ages().min(), ages().max());
        let encode = move || {
            let content = encoded(&documents)?;
            let sha256 = sha256(&content);
            io::Result::Ok((documents, content, sha256))
        };
        let encoded = match spawn_blocking(encode).await {
            Ok(encoded) => encoded,
            Err(error) => Err(io::Error::other(error)),
        };
        let (documents, content, sha256) = encoded.map_err(|error| store_failed("encode", error))?;
        let file = ArchiveFile {
            name: format!("{}.bson.zst", ObjectId::new()),
            documents: documents.len() as u64,
            bytes: content.len() as u64,
            oldest: oldest.unwrap_or(DateTime::MIN),
            newest: newest.unwrap_or(DateTime::MAX),
            archived_at: DateTime::now(),
            sha256,
        };
        Ok(Self {
            file,
            documents,
            content,
        })
    }

    /// Returns the record.
    pub(super) fn record(&self, shared: &Shared) -> Result<RawDocumentBuf> {
        let file = &self.file;
        let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let record = doc! {
            "_id": shared.record_id(file.name.as_str()), "state": PENDING,
            "documents": long(file.documents), "bytes": long(file.bytes),
            "oldest": file.oldest, "newest": file.newest, "archived": file.archived_at, "sha256": &file.sha256,
        };
        Ok(RawDocumentBuf::try_from(&record).map_err(DriverError::from)?)
    }
}

fn encoded(documents: &[RawDocumentBuf]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
    for document in documents {
        encoder.write_all(document.as_bytes())?;
    }
    encoder.finish()
}

/// Returns the documents. `None` if the content is not that of the record.
fn decoded(content: &[u8], file: &ArchiveFile) -> Option<Vec<RawDocumentBuf>> {
    if sha256(content) != file.sha256 {
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

impl Shared {
    /// Returns the `_id` of the record of a file.
    pub(super) fn record_id(&self, name: impl Into<Bson>) -> Document {
        doc! { "kind": "archive_file", "collection": self.current.name(), "name": name }
    }

    /// Matches the records of all files in these states.
    pub(super) fn records(&self, states: &[&str]) -> Document {
        let bounds = doc! { "$gt": self.record_id(Bson::MinKey), "$lt": self.record_id(Bson::MaxKey) };
        doc! { "_id": bounds, "state": { "$in": states } }
    }

    /// Matches the record of a file in one of these states.
    pub(super) fn record(&self, name: &str, states: &[&str]) -> Document {
        doc! { "_id": self.record_id(name), "state": { "$in": states } }
    }

    /// Returns a file of the archive.
    pub(super) async fn find(&self, name: &str, conn: &mut Conn<'_>) -> Result<Option<ArchiveFile>> {
        let found = conn.find_one(&self.records, self.record(name, &[STORED]), None).await?;
        found.map(|record| ArchiveFile::of(&record)).transpose()
    }

    /// Reads a file, or finds its problem.
    ///
    /// # Errors
    /// [`FileStore`](ErrorKind::FileStore).
    pub(super) async fn open(
        &self,
        file: &ArchiveFile,
        conn: &Conn<'_>,
    ) -> Result<std::result::Result<Vec<RawDocumentBuf>, FileProblem>> {
        let content = match conn.finish(self.store.get(&file.name)).await {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(FileProblem::Missing)),
            Err(error) => return Err(store_failed("read", error)),
        };
        let file = file.clone();
        let decoded = spawn_blocking(move || decoded(&content, &file)).await;
        let decoded = decoded.map_err(|error| store_failed("decode", io::Error::other(error)))?;
        Ok(decoded.ok_or(FileProblem::Changed))
    }

    /// Reads a file of the archive.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound), [`Corrupt`](ErrorKind::Corrupt) and [`FileStore`](ErrorKind::FileStore).
    pub(super) async fn load(&self, name: &str, conn: &mut Conn<'_>) -> Result<Vec<RawDocumentBuf>> {
        let file = self.find(name, conn).await?.ok_or_else(not_found)?;
        match self.open(&file, conn).await? {
            Ok(documents) => Ok(documents),
            // Restored or deleted since.
            Err(_) if self.find(name, conn).await?.is_none() => Err(not_found()),
            Err(problem) => Err(Error::corrupt(name.into(), "", problem.to_string()).of_collection(&self.records)),
        }
    }

    /// Lets a file be no part of the archive if its record is in one of these states. Waits for a transaction that decides about
    /// it. Returns whether it was.
    pub(super) async fn mark(&self, name: &str, states: &[&str], conn: &mut Conn<'_>) -> Result<bool> {
        let deleted = doc! { "$set": { "state": DELETED } };
        let mark = Step::update_one(
            "mark a file as deleted",
            &self.records,
            self.record(name, states),
            deleted,
        );
        Ok(conn.write(mark).await?.is_none_or(|reply| reply.matched == 1))
    }

    /// Deletes a marked file, and then its record.
    ///
    /// # Errors
    /// [`FileStore`](ErrorKind::FileStore), and those of the driver.
    pub(super) async fn remove(&self, name: &str, conn: &mut Conn<'_>) -> Result<()> {
        if !conn.is_plan() {
            let deleted = conn.finish(self.store.delete(name)).await;
            deleted.map_err(|error| store_failed("delete", error))?;
        }
        let record = self.record(name, &[DELETED]);
        let delete = Step::delete_one("delete the record of a file", &self.records, record);
        conn.write(delete).await?;
        Ok(())
    }

    /// Removes a file that is no part of the archive. Returns whether its record was pending.
    pub(super) async fn discard(&self, name: &str, conn: &mut Conn<'_>) -> Result<bool> {
        let was_pending = self.mark(name, &[PENDING], conn).await?;
        // Without a record, another process has discarded it, perhaps before this one had written it.
        if was_pending || self.find(name, conn).await?.is_none() {
            self.remove(name, conn).await?;
        }
        Ok(was_pending)
    }

    /// Removes the files that calls have left which died.
    pub(super) async fn discard_left(&self, conn: &mut Conn<'_>) -> Result<()> {
        let records = self.records(&[PENDING, DELETED]);
        let find = Step::find(
            "look for files to delete",
            &self.records,
            records,
            FindOptions::default(),
        );
        for record in conn.read(find).await?.documents {
            self.discard(&name_of(&record), conn).await?;
        }
        Ok(())
    }
}

pub(super) fn not_found() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the archive has no file of this name, nothing was changed: it was restored or deleted, or never written; see files()",
    )
}

/// Returns the error of a call of the store.
pub(super) fn store_failed(what: &str, error: io::Error) -> Error {
    let text = format!(
        "the store could not {what} a file ({}), the documents are where they were: correct it, and call again",
        error.kind()
    );
    Error::from_driver(ErrorKind::FileStore, text, DriverError::from(error))
}
