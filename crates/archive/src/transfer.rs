//! Documents that move from one collection to another.
//!
//! # Design
//!
//! ## Why a transaction?
//!
//! Copy and delete are two commands, and another client can write between them: the update is in the deleted document, and
//! not in the copy. A deletion that names the copied values compares by meaning, so it misses a change of type or, under a
//! collation, of case. In a transaction, the server refuses the deletion of a document that was written since it was read.
//!
//! ## Why is a chunk halved?
//!
//! A chunk is refused as a whole when one of its documents is written, or when the target refuses one. Halves have fewer
//! documents and take less time, and the refused one is left in the end.
//!
//! ## Why are documents that others write tried again at the end?
//!
//! The transaction of a killed client has them for up to 90 seconds. All further attempts of a run together have the time of
//! the retry policy. This time begins at the end: earlier halves could use it up before all others of a chunk have moved.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::document_id::{by_id, by_ids};
use mongo_patterns_core::error::refused_move;
use mongo_patterns_core::migration::{Step, and};
use mongo_patterns_core::retry::PutAside;
use mongo_patterns_core::stored::id_of;
use mongo_patterns_core::{Error, ErrorKind, Moved, Result, RetryPolicy, transaction};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::FindOptions;

use crate::newest::Newest;
use crate::related::{self, Related};
use crate::results::Restored;
use crate::through::{self, Through};

/// How often a chunk is tried before it is halved.
const ATTEMPTS: u32 = 3;

/// How many documents are tried together again.
const CHUNK: usize = 500;

/// What a run leaves when it has walked through the documents.
pub(crate) struct Left {
    /// The documents that others were writing.
    busy: PutAside,
    /// The error of the first document that the target refused.
    refused: Option<Error>,
}

impl Left {
    pub(crate) fn nothing(retry: &RetryPolicy) -> Self {
        let busy = PutAside::new(retry);
        Self { busy, refused: None }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Transfer<'a> {
    pub(crate) from: &'a Collection<RawDocumentBuf>,
    pub(crate) to: &'a Collection<RawDocumentBuf>,
    /// What a document must match when it moves.
    pub(crate) filter: &'a Document,
    /// Whether they move from the archive.
    pub(crate) restores: bool,
    /// Whether a document replaces the document with its `_id` in the target. Otherwise it stays.
    pub(crate) replaces: bool,
    /// If the newest document of each value of a field stays.
    pub(crate) newest: Option<Newest<'a>>,
    /// The repositories that bring them up to date.
    pub(crate) through: &'a Through<'a>,
    pub(crate) related: &'a Related,
    pub(crate) retry: &'a RetryPolicy,
    pub(crate) age_field: &'a str,
}

impl Transfer<'_> {
    /// Moves the documents of a chunk that still match, or lists the commands of a plan. Each is in one of the collections,
    /// for every reader of a snapshot. Halves a refused chunk, and leaves a single refused document. After an error, some of
    /// the chunk may have moved.
    pub(crate) async fn move_chunk(self, ids: &[Bson], left: &mut Left, conn: &mut Conn<'_>) -> Result<Moved> {
        let (mut moved, mut slices) = (Moved::default(), vec![ids]);
        while let Some(slice) = slices.pop() {
            // A part has one attempt: what others write is tried again at the end.
            let most = if slice.len() == ids.len() { ATTEMPTS } else { 1 };
            let done = match conn.is_plan() {
                true => self.plan(slice, conn).await,
                false => self.move_all(slice, most, conn).await,
            };
            let error = match done {
                Ok(done) => {
                    moved.add(done);
                    continue;
                }
                Err(error) => error,
            };
            let may_halve = match error.kind() {
                ErrorKind::Contention => left.busy.may_halve(),
                ErrorKind::TooLarge => true,
                // The target refuses it, or it has no source. With the newest, others would move before it.
                ErrorKind::AlreadyExists
                | ErrorKind::DuplicateKey
                | ErrorKind::ValidationFailed
                | ErrorKind::NotFound => self.newest.is_none(),
                _ => return Err(error),
            };
            if may_halve && slice.len() > 1 {
                let (first, second) = slice.split_at(slice.len() / 2);
                slices.extend([second, first]);
                continue;
            }
            match error.kind() {
                // Newer ones would move before it.
                _ if self.newest.is_some() => return Err(error),
                ErrorKind::Contention => left.busy.add(slice),
                ErrorKind::TooLarge => moved.too_large += 1,
                ErrorKind::DuplicateKey if !self.restores => moved.conflicts += 1,
                _ => drop(left.refused.get_or_insert(error)),
            }
        }
        Ok(moved)
    }

    /// Moves the documents that others were writing, until the time of the policy is over.
    pub(crate) async fn move_left(self, mut left: Left, conn: &mut Conn<'_>) -> Result<Moved> {
        let mut moved = Moved::default();
        while let Some(busy) = left.busy.again().await {
            for ids in busy.chunks(CHUNK) {
                moved.add(self.move_chunk(ids, &mut left, conn).await?);
            }
        }
        moved.busy = left.busy.count();
        match left.refused {
            None => Ok(moved),
            Some(error) => Err(error),
        }
    }

    /// Moves documents together, or none. Expects that the target has none of them, which is nearly always so.
    async fn move_all(self, ids: &[Bson], most: u32, conn: &mut Conn<'_>) -> Result<Moved> {
        let in_order = self.newest.is_some() && !self.replaces;
        match self.retry(ids, most, false, conn).await {
            Err(error) if may_be_in_target(&error) && !in_order => self.retry(ids, most, true, conn).await,
            moved => moved,
        }
    }

    async fn retry(self, ids: &[Bson], most: u32, reads_target: bool, conn: &mut Conn<'_>) -> Result<Moved> {
        // A document that must move before others has the time of the policy.
        let most = match self.newest.is_some() && ids.len() == 1 {
            true => self.retry.max_attempts,
            false => self.retry.max_attempts.min(most),
        };
        let hurried = self.retry.with_max_attempts(most);
        match self.in_transaction(&hurried, ids, reads_target, conn).await {
            // A failover, for which the policy has more time.
            Err(error)
                if error.kind() != ErrorKind::Contention && (error.is_transient() || error.is_outcome_unknown()) =>
            {
                self.in_transaction(self.retry, ids, reads_target, conn).await
            }
            moved => moved,
        }
    }

    async fn in_transaction(
        self,
        retry: &RetryPolicy,
        ids: &[Bson],
        reads_target: bool,
        conn: &mut Conn<'_>,
    ) -> Result<Moved> {
        let context = (self, ids, reads_target);
        transaction::run(
            self.from,
            retry,
            conn,
            context,
            |conn, (transfer, ids, reads_target)| Box::pin(transfer.attempt(ids, *reads_target, conn)),
        )
        .await
    }

    /// Returns what [`move_all`](Self::move_all) would move. Lists its commands.
    async fn plan(self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Moved> {
        self.attempt(ids, false, conn).await?;
        self.attempt(ids, true, &mut Conn::plan()).await
    }

    /// Moves documents, in a transaction. May read first which of them the target has.
    async fn attempt(self, ids: &[Bson], reads_target: bool, conn: &mut Conn<'_>) -> Result<Moved> {
        let Self { from, to, .. } = self;
        let (mut moved, mut replaced) = (Moved::default(), None);
        let mut filter = and(by_ids(ids), self.filter.clone());
        if let Some(newest) = self.newest {
            let Some(older) = newest.leave_out(from, filter, ids.len(), conn).await? else {
                return Ok(moved);
            };
            filter = older;
        }
        let mut documents = read(from, filter.clone(), ids.len(), conn).await?;
        if reads_target && !documents.is_empty() {
            let in_target = self.in_target(&documents, conn).await?;
            if self.replaces {
                replaced = in_target;
            } else if let Some(in_target) = in_target {
                let all = documents.len();
                // The server compares, to which ids of different types can be equal.
                documents = read(from, and(filter, doc! { "$nor": [in_target] }), all, conn).await?;
                moved.conflicts = (all - documents.len()) as u64;
            }
        }
        if documents.is_empty() {
            return Ok(moved);
        }
        let ids = ids_of(&documents);
        let related = self.related.read(&documents, self.restores, conn).await;
        let related = related.map_err(|error| error.of_collection(from))?;
        moved.add(Moved::of(&documents, self.age_field));
        let related_documents = || related.iter().flat_map(|one| &one.documents);
        moved.related = related_documents().count() as u64;
        moved.bytes += related_documents().map(|one| one.as_bytes().len() as u64).sum::<u64>();
        if !conn.is_plan() {
            documents = through::updated(self.through, documents, conn).await?;
        }
        // First, because others write them and not their document.
        related::delete(&related, conn).await?;
        conn.write(Step::delete_many("delete documents", from, by_ids(&ids)))
            .await?;
        if let Some(replaced) = replaced {
            let delete_related = self
                .related
                .delete_replaced(&documents, (to, &replaced), self.restores, conn);
            delete_related.await?;
            let delete = Step::delete_many("delete what is replaced", to, replaced);
            conn.write(delete).await?;
        }
        let insert = Step::insert_many("insert the documents", to, documents);
        let inserted = conn.write(insert).await;
        inserted.map_err(|error| refused_move(error, from, to, &ids))?;
        related::insert(&related, conn).await?;
        Ok(moved)
    }

    /// Matches the documents that the target has, itself or as related documents.
    async fn in_target(self, documents: &[RawDocumentBuf], conn: &mut Conn<'_>) -> Result<Option<Document>> {
        let options = FindOptions::builder().projection(doc! { "_id": 1 }).build();
        let find = Step::find("look for their _ids", self.to, by_ids(&ids_of(documents)), options);
        let ids = ids_of(&conn.read(find.up_to(documents.len())).await?.documents);
        let by_id = (!ids.is_empty()).then(|| by_ids(&ids));
        let by_related = self.related.in_target(documents, self.to, self.restores, conn).await?;
        Ok(match (by_id, by_related) {
            (Some(by_id), Some(by_related)) => Some(doc! { "$or": [by_id, by_related] }),
            (by_id, by_related) => by_id.or(by_related),
        })
    }
}

/// Reads documents, at most this number.
async fn read(
    from: &Collection<RawDocumentBuf>,
    filter: Document,
    most: usize,
    conn: &mut Conn<'_>,
) -> Result<Vec<RawDocumentBuf>> {
    let find = Step::find("read documents", from, filter, FindOptions::default());
    Ok(conn.read(find.up_to(most)).await?.documents)
}

/// Returns whether the target may have a document, or related ones of it.
fn may_be_in_target(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::DuplicateKey)
}

pub(crate) fn ids_of(documents: &[RawDocumentBuf]) -> Vec<Bson> {
    documents.iter().map(|document| id_of(document)).collect()
}

/// Moves a document back that the transaction has read, up to date, by the filter of its source.
pub(crate) async fn put_back(
    from: &Collection<RawDocumentBuf>,
    filter: Document,
    documents: Vec<RawDocumentBuf>,
    to: &Collection<RawDocumentBuf>,
    conn: &mut Conn<'_>,
) -> Result<Restored> {
    let ids = ids_of(&documents);
    conn.delete_one(from, filter, None).await?;
    let inserted = match <[RawDocumentBuf; 1]>::try_from(documents) {
        Ok([document]) => conn.insert_one(to, document, None).await.map(drop),
        Err(documents) => conn.insert_many(to, documents, None).await.map(drop),
    };
    inserted.map_err(|error| refused_move(error, from, to, &ids))?;
    Ok(Restored { already_there: false })
}

/// Returns that there is nothing to restore because the collection has the document.
pub(crate) async fn already_restored(
    current: &Collection<RawDocumentBuf>,
    id: &Bson,
    conn: &mut Conn<'_>,
) -> Result<Restored> {
    match conn.find_one(current, by_id(id), None).await? {
        Some(_) => Ok(Restored { already_there: true }),
        None => Err(Error::new(
            ErrorKind::NotFound,
            "there is no document with this `_id` in either collection, nothing was changed",
        )),
    }
}
