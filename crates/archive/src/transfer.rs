//! Documents that move from one collection to another.
//!
//! # Design
//!
//! ## Why a transaction?
//!
//! Copy and delete are two commands, and another client can write between them: the update is in the document that is
//! deleted, and not in the copy. A deletion that names the copied values compares by meaning, so it misses a change of type
//! only, and one of case under a collation. In a transaction, the server refuses the deletion of a document that was written
//! since it was read.
//!
//! ## Why is a chunk halved?
//!
//! A chunk is refused as a whole when one of its documents is written. Halves have fewer documents and take less time, and
//! one document that is written all the time is left in the end.

use mongo_patterns_core::error::{CommandError, duplicate_key, refused_document};
use mongo_patterns_core::migration::{Step, both};
use mongo_patterns_core::{RetryPolicy, transaction};
use mongodb::options::FindOptions;

use crate::prelude::*;
use crate::results::{Moved, Restored};

/// How often a chunk is tried before it is halved.
const ATTEMPTS: u32 = 3;

#[derive(Clone, Copy)]
pub(crate) struct Transfer<'a> {
    pub(crate) from: &'a Raw,
    pub(crate) to: &'a Raw,
    /// What a document must match when it moves.
    pub(crate) filter: &'a Document,
    /// Whether a document replaces one of its `_id` in the target. Otherwise it stays.
    pub(crate) replaces: bool,
    pub(crate) retry: &'a RetryPolicy,
}

/// A try to move documents.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    transfer: Transfer<'a>,
    ids: &'a [Bson],
    /// Whether it looks for their `_id`s in the target first.
    looks: bool,
}

impl Transfer<'_> {
    /// Moves those of the documents that still match. Each of them is in one of the collections, for every reader of a
    /// snapshot.
    ///
    /// # Errors
    /// Those of the insert, and those of the driver. Parts of the chunk may have moved.
    pub(crate) async fn chunk(self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Moved> {
        let mut moved = Moved::default();
        let mut parts = vec![ids];
        while let Some(part) = parts.pop() {
            match self.part(part, conn).await {
                Ok(done) => moved.add(done),
                Err(error) if error.kind() != ErrorKind::Contention => return Err(error),
                Err(_) if part.len() == 1 => moved.busy += 1,
                Err(_) => parts.extend([&part[part.len() / 2..], &part[..part.len() / 2]]),
            }
        }
        Ok(moved)
    }

    /// Moves documents together, or none of them. Expects that the target has none of them, which is nearly always so.
    async fn part(self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Moved> {
        let attempt = |looks| Attempt {
            transfer: self,
            ids,
            looks,
        };
        match self.run(attempt(false), conn).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.run(attempt(true), conn).await,
            moved => moved,
        }
    }

    async fn run(self, attempt: Attempt<'_>, conn: &mut Conn<'_>) -> Result<Moved> {
        let most = self.retry.max_attempts.min(ATTEMPTS);
        let hurried = self.retry.clone().with_max_attempts(most);
        match self.run_with(&hurried, attempt, conn).await {
            // A failover, for which the policy has more time.
            Err(error) if error.kind() != ErrorKind::Contention && may_pass(&error) => {
                self.run_with(self.retry, attempt, conn).await
            }
            moved => moved,
        }
    }

    async fn run_with(self, retry: &RetryPolicy, attempt: Attempt<'_>, conn: &mut Conn<'_>) -> Result<Moved> {
        transaction::run(self.from, retry, conn, attempt, |conn, attempt| {
            Box::pin(attempt.run(conn))
        })
        .await
    }

    /// Returns what [`chunk`](Self::chunk) would move. Lists its commands.
    pub(crate) async fn plan(self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Moved> {
        let attempt = |looks| Attempt {
            transfer: self,
            ids,
            looks,
        };
        attempt(false).run(conn).await?;
        attempt(true).run(&mut Conn::plan()).await
    }
}

impl Attempt<'_> {
    async fn run(self, conn: &mut Conn<'_>) -> Result<Moved> {
        let Transfer { from, to, filter, .. } = self.transfer;
        let filter = both(by_ids(self.ids), filter.clone());
        let mut documents = read(from, filter.clone(), conn).await?;
        let mut moved = Moved::default();
        if self.looks && !documents.is_empty() {
            let there = self.there(&documents, conn).await?;
            if !there.is_empty() && self.transfer.replaces {
                let delete = Step::delete_many("delete what is replaced", to, by_ids(&there));
                conn.write(delete).await?;
            } else if !there.is_empty() {
                moved.conflicts = there.len() as u64;
                // The server compares, to which ids of different types can be equal.
                let others = doc! { "$nor": [by_ids(&there)] };
                documents = read(from, both(filter, others), conn).await?;
            }
        }
        if documents.is_empty() {
            return Ok(moved);
        }
        moved.documents = documents.len() as u64;
        let ids = ids(&documents);
        conn.write(Step::delete_many("delete documents", from, by_ids(&ids)))
            .await?;
        let insert = Step::insert_many("insert the documents", to, documents);
        conn.write(insert).await.map_err(|error| {
            let id = refused_document(&error).and_then(|at| ids.into_iter().nth(at));
            refused(error, to, id)
        })?;
        Ok(moved)
    }

    /// Returns which `_id`s of these documents the target has.
    async fn there(self, documents: &[RawDocumentBuf], conn: &mut Conn<'_>) -> Result<Vec<Bson>> {
        let options = FindOptions::builder().projection(doc! { "_id": 1 }).build();
        let find = Step::find(
            "look for their _ids",
            self.transfer.to,
            by_ids(&ids(documents)),
            options,
        );
        Ok(ids(&conn.read(find).await?.documents))
    }
}

async fn read(from: &Raw, filter: Document, conn: &mut Conn<'_>) -> Result<Vec<RawDocumentBuf>> {
    let find = Step::find("read documents", from, filter, FindOptions::default());
    Ok(conn.read(find).await?.documents)
}

fn may_pass(error: &Error) -> bool {
    error.is_transient() || error.is_outcome_unknown()
}

pub(crate) fn ids(documents: &[RawDocumentBuf]) -> Vec<Bson> {
    documents.iter().map(|document| id_of(document)).collect()
}

/// Moves a document back that the transaction has read, by a filter of what has it.
///
/// # Errors
/// Those of the insert, and those of the driver.
pub(crate) async fn put_back(
    from: &Raw,
    filter: Document,
    document: RawDocumentBuf,
    to: &Raw,
    conn: &mut Conn<'_>,
) -> Result<Restored> {
    let id = id_of(&document);
    conn.delete_one(from, filter, None).await?;
    let inserted = conn.insert_one(to, document, None).await;
    inserted.map_err(|error| refused(error, to, Some(id)))?;
    Ok(Restored { already_there: false })
}

/// Returns that there is nothing to restore because the collection has the document.
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound) if it does not, and those of the driver.
pub(crate) async fn is_there(current: &Raw, id: &Bson, conn: &mut Conn<'_>) -> Result<Restored> {
    match conn.find_one(current, by_id(id), None).await? {
        Some(_) => Ok(Restored { already_there: true }),
        None => Err(Error::new(
            ErrorKind::NotFound,
            "there is no document with this `_id` in either collection, nothing was changed",
        )),
    }
}

/// Converts the error of the insert, with the document that was refused.
pub(crate) fn refused(error: CommandError, to: &Raw, id: Option<Bson>) -> Error {
    let error = match duplicate_key(&error) {
        Some(duplicate) if duplicate.is_of_id() => Error::from_driver(
            ErrorKind::AlreadyExists,
            format!(
                "`{}` has a document with this `_id` too, nothing was changed: delete one of the two",
                to.name()
            ),
            error,
        ),
        Some(duplicate) => Error::from_driver(
            ErrorKind::DuplicateKey,
            format!(
                "the unique index `{}` of `{}` refused a document, which stays where it is: drop the index, or change one of the two documents",
                duplicate.index.unwrap_or_default(),
                to.name()
            ),
            error,
        ),
        None => error.into(),
    };
    match id {
        Some(id) => error.at(id, "").of_collection(to),
        None => error,
    }
}
