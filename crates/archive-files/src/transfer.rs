//! Documents that move from the collection into a file.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::by_ids;
use mongo_patterns_core::migration::{Step, and};
use mongo_patterns_core::retry::PutAside;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{Error, ErrorKind, Moved, Result, transaction};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::FindOptions;
use object_store::Error as StoreError;
use tokio::task::spawn_blocking;

use crate::form::{self, PENDING, STORED};
use crate::repository::Shared;
use crate::results::ArchiveFile;
use crate::store;

/// How often others may refuse a chunk before it is halved.
const ATTEMPTS: u32 = 3;
/// How many documents are tried together again.
const CHUNK: usize = 500;

/// A move of documents that match a filter.
pub(crate) struct Transfer<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) filter: Document,
}

impl Transfer<'_> {
    /// Moves the documents of a chunk that still match. Halves refused documents, and puts a single one aside.
    pub(crate) async fn move_chunk(&self, ids: &[Bson], busy: &mut PutAside) -> Result<Moved> {
        let conn = &mut self.shared.enter().await?;
        let (mut moved, mut slices) = (Moved::default(), vec![ids]);
        while let Some(slice) = slices.pop() {
            // A part has one attempt, which stores a file: what others write is tried again at the end.
            let most = if slice.len() == ids.len() { ATTEMPTS } else { 1 };
            let error = match self.retry(slice, most, conn).await {
                Ok(done) => {
                    moved.add(done);
                    continue;
                }
                Err(error) => error,
            };
            let may_halve = match error.kind() {
                ErrorKind::Contention => busy.may_halve(),
                ErrorKind::TooLarge => true,
                _ => return Err(error),
            };
            if may_halve && slice.len() > 1 {
                let (first, second) = slice.split_at(slice.len() / 2);
                slices.extend([second, first]);
            } else if error.kind() == ErrorKind::Contention {
                busy.add(slice);
            } else {
                return Err(error);
            }
        }
        Ok(moved)
    }

    /// Moves the documents that others were writing, until the time of the policy is over.
    pub(crate) async fn move_busy(&self, mut busy: PutAside) -> Result<Moved> {
        let mut moved = Moved::default();
        while let Some(ids) = busy.again().await {
            for ids in ids.chunks(CHUNK) {
                moved.add(self.move_chunk(ids, &mut busy).await?);
            }
        }
        moved.busy = busy.count();
        Ok(moved)
    }

    /// Moves documents together, or none of them, until others have refused it a few times.
    async fn retry(&self, ids: &[Bson], most: u32, conn: &mut Conn<'_>) -> Result<Moved> {
        let (mut attempts, mut refusals) = (self.shared.retry.start(), 0);
        loop {
            let error = match self.attempt(ids, conn).await {
                Ok(moved) => return Ok(moved),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Contention => refusals += 1,
                // The driver has waited already.
                ErrorKind::ServerSelection => return Err(error),
                _ if error.is_transient() || error.is_outcome_unknown() => {}
                _ => return Err(error),
            }
            if refusals == most || !attempts.wait().await {
                return Err(attempts.tried(error));
            }
        }
    }

    /// Moves documents together, or lists the commands of a plan.
    pub(crate) async fn attempt(&self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Moved> {
        let (shared, age_field) = (self.shared, self.shared.age_field());
        let filter = and(by_ids(ids), self.filter.clone());
        let documents = read(shared, filter.clone(), ids.len(), conn).await?;
        if documents.is_empty() {
            return Ok(Moved::default());
        }
        let moved = Moved::of(&documents, age_field);
        let (documents, file, content) = encode(documents, age_field.to_owned()).await?;
        let record = form::pending_record(&file, shared.current.name())?;
        let record = Step::insert_many("record a file", &shared.records, vec![record]);
        conn.write(record).await?;
        let name = file.name.clone();
        let mut context = (shared, filter, documents, file);
        if conn.is_plan() {
            replace_by_file(&mut context, conn).await?;
            return Ok(moved);
        }
        let replaced = match shared.store.put(&name, content, conn).await {
            Err(error) => Err(error),
            Ok(()) => {
                let once = shared.retry.with_max_attempts(1);
                transaction::run(&shared.current, &once, conn, context, |conn, context| {
                    Box::pin(replace_by_file(context, conn))
                })
                .await
            }
        };
        let error = match replaced {
            Ok(()) => return Ok(moved),
            // The next run finds out.
            Err(error) if error.is_outcome_unknown() => return Err(error),
            Err(error) => error,
        };
        match shared.discard(&name, conn).await {
            // The store may have refused it for that reason.
            Ok(false) => Err(refused()),
            // If that failed, the next run does it.
            Ok(true) | Err(_) => Err(error),
        }
    }

    /// Counts the documents of a chunk that a run would move.
    pub(crate) async fn count(&self, ids: &[Bson]) -> Result<Moved> {
        let filter = and(by_ids(ids), self.filter.clone());
        let documents = read(self.shared, filter, ids.len(), &mut Conn::plan()).await?;
        Ok(Moved::of(&documents, self.shared.age_field()))
    }
}

/// Reads documents, at most this number.
async fn read(shared: &Shared, filter: Document, most: usize, conn: &mut Conn<'_>) -> Result<Vec<RawDocumentBuf>> {
    let find = Step::find("read documents", &shared.current, filter, FindOptions::default());
    Ok(conn.read(find.up_to(most)).await?.documents)
}

/// Returns the documents with their new file and its content.
async fn encode(
    documents: Vec<RawDocumentBuf>,
    age_field: String,
) -> Result<(Vec<RawDocumentBuf>, ArchiveFile, Vec<u8>)> {
    let encode = move || form::encode(&documents, &age_field).map(|(file, content)| (documents, file, content));
    let encoded = spawn_blocking(encode).await.map_err(StoreError::from);
    let encoded = encoded.and_then(|encoded| {
        encoded.map_err(|error| StoreError::Generic {
            store: "zstd",
            source: error.into(),
        })
    });
    encoded.map_err(|error| store::failed("encode", error))
}

/// Deletes the documents of a file in the collection, and lets the file be a part of the archive. In a transaction.
async fn replace_by_file(
    (shared, filter, expected, file): &mut (&Shared, Document, Vec<RawDocumentBuf>, ArchiveFile),
    conn: &mut Conn<'_>,
) -> Result<()> {
    let Shared { current, records, .. } = *shared;
    let pending = shared.record_in(&file.name, &[PENDING]);
    let stored = doc! { "$set": { "state": STORED } };
    let store = Step::update_one("let the file be a part of the archive", records, pending, stored);
    let is_pending = conn.write(store).await?.is_none_or(|reply| reply.matched == 1);
    let documents = read(shared, filter.clone(), expected.len(), conn).await?;
    if !is_pending || sorted(&documents) != sorted(expected) {
        return Err(refused());
    }
    let ids: Vec<Bson> = documents.iter().map(|document| id_of(document)).collect();
    let delete = Step::delete_many("delete documents", current, by_ids(&ids));
    let deleted = conn.write(delete).await?.map(|reply| reply.deleted);
    // More of them if a document of another shard has the same `_id`.
    match deleted.is_none_or(|deleted| deleted == file.documents) {
        true => Ok(()),
        false => Err(refused()),
    }
}

/// Returns the bytes of documents in one order.
fn sorted(documents: &[RawDocumentBuf]) -> Vec<&[u8]> {
    let mut bytes: Vec<&[u8]> = documents.iter().map(|document| document.as_bytes()).collect();
    bytes.sort_unstable();
    bytes
}

/// Returns the error of documents that others have written since they were read, or of a file that another process has
/// discarded.
fn refused() -> Error {
    Error::from_driver(
        ErrorKind::Contention,
        "other calls exhausted the retry policy, nothing was changed: retry later",
        DriverError::custom("a document was written since it was read"),
    )
}
