//! The files of an archive, with their records in the catalog: found, read and discarded.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::migration::Step;
use mongo_patterns_core::{Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::FindOptions;
use tokio::task::spawn_blocking;

use crate::finding::Problem;
use crate::form::{self, DELETED, PENDING, STORED, file_of, name_of};
use crate::repository::Shared;
use crate::results::ArchiveFile;
use crate::store;

impl Shared {
    /// Returns the `_id` of the record of a file.
    pub(crate) fn record_id(&self, name: impl Into<Bson>) -> Document {
        form::record_id(self.current.name(), name)
    }

    /// Matches the records of all files in these states.
    pub(crate) fn records_in(&self, states: &[&str]) -> Document {
        let bounds = doc! { "$gt": self.record_id(Bson::MinKey), "$lt": self.record_id(Bson::MaxKey) };
        doc! { "_id": bounds, "state": { "$in": states } }
    }

    /// Matches the record of a file in one of these states.
    pub(crate) fn record_in(&self, name: &str, states: &[&str]) -> Document {
        doc! { "_id": self.record_id(name), "state": { "$in": states } }
    }

    pub(crate) async fn find(&self, name: &str, conn: &mut Conn<'_>) -> Result<Option<ArchiveFile>> {
        let record = conn.find_one(&self.records, self.record_in(name, &[STORED]), None);
        record.await?.map(|record| file_of(&record)).transpose()
    }

    /// Reads the documents of a file, or finds its problem.
    ///
    /// # Errors
    /// [`FileStore`](ErrorKind::FileStore).
    pub(crate) async fn documents_or_problem(
        &self,
        file: &ArchiveFile,
        conn: &Conn<'_>,
    ) -> Result<std::result::Result<Vec<RawDocumentBuf>, Problem>> {
        let Some(content) = self.store.get(&file.name, conn).await? else {
            return Ok(Err(Problem::Missing));
        };
        let file = file.clone();
        let decoded = spawn_blocking(move || form::decode(&content, &file)).await;
        let decoded = decoded.map_err(|error| store::failed("decode", error))?;
        Ok(decoded.ok_or(Problem::Changed))
    }

    /// Reads the documents of a file of the archive.
    pub(crate) async fn load(&self, name: &str, conn: &mut Conn<'_>) -> Result<Vec<RawDocumentBuf>> {
        let file = self.find(name, conn).await?.ok_or_else(not_found)?;
        match self.documents_or_problem(&file, conn).await? {
            Ok(documents) => Ok(documents),
            // Restored or deleted since.
            Err(_) if self.find(name, conn).await?.is_none() => Err(not_found()),
            Err(problem) => Err(Error::corrupt(name.into(), "", problem.to_string()).of_collection(&self.records)),
        }
    }

    /// Lets a file be no part of the archive if its record is in one of these states. Waits for a transaction that decides.
    /// Returns whether it was.
    pub(crate) async fn mark_deleted(&self, name: &str, states: &[&str], conn: &mut Conn<'_>) -> Result<bool> {
        let deleted = doc! { "$set": { "state": DELETED } };
        let record = self.record_in(name, states);
        let mark = Step::update_one("mark a file as deleted", &self.records, record, deleted);
        Ok(conn.write(mark).await?.is_none_or(|reply| reply.matched == 1))
    }

    /// Deletes a marked file, and then its record.
    pub(crate) async fn remove(&self, name: &str, conn: &mut Conn<'_>) -> Result<()> {
        if !conn.is_plan() {
            self.store.delete(name, conn).await?;
        }
        let record = self.record_in(name, &[DELETED]);
        let delete = Step::delete_one("delete the record of a file", &self.records, record);
        conn.write(delete).await?;
        Ok(())
    }

    /// Removes a file that is no part of the archive. Returns whether its record was pending.
    pub(crate) async fn discard(&self, name: &str, conn: &mut Conn<'_>) -> Result<bool> {
        let was_pending = self.mark_deleted(name, &[PENDING], conn).await?;
        // Without a record, another process has discarded it, perhaps before this one had written it.
        if was_pending || self.find(name, conn).await?.is_none() {
            self.remove(name, conn).await?;
        }
        Ok(was_pending)
    }

    /// Removes the files of calls whose process died.
    pub(crate) async fn discard_abandoned(&self, conn: &mut Conn<'_>) -> Result<()> {
        let records = self.records_in(&[PENDING, DELETED]);
        let options = FindOptions::default();
        let find = Step::find("look for files to delete", &self.records, records, options);
        for record in conn.read(find).await?.documents {
            self.discard(&name_of(&record), conn).await?;
        }
        Ok(())
    }
}

pub(crate) fn not_found() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "the archive has no file of this name, nothing was changed: it was restored or deleted, or never written; see files()",
    )
}
