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

use mongo_patterns_core::error::refused_document;
use mongo_patterns_core::migration::{Step, both};
use mongo_patterns_core::{RetryPolicy, transaction};
use mongodb::options::FindOptions;

use crate::newest::Newest;
use crate::prelude::*;
use crate::refused::refused;
use crate::results::{Moved, Restored};
use crate::wholes::{self, Moving};

/// How often a chunk is tried before it is halved.
pub(crate) const ATTEMPTS: u32 = 3;

#[derive(Clone, Copy)]
pub(crate) struct Transfer<'a> {
    pub(crate) from: &'a Raw,
    pub(crate) to: &'a Raw,
    /// What a document must match when it moves.
    pub(crate) filter: &'a Document,
    /// Whether a document replaces one of its `_id` in the target. Otherwise it stays.
    pub(crate) replaces: bool,
    /// If the newest document of each value of a field stays.
    pub(crate) newest: Option<Newest<'a>>,
    pub(crate) wholes: Moving<'a>,
    pub(crate) retry: &'a RetryPolicy,
    /// The field with the age.
    pub(crate) age: &'a str,
}

/// The parts of a chunk: halves of those that are refused.
pub(crate) struct Parts<'a> {
    left: Vec<&'a [Bson]>,
    pub(crate) moved: Moved,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(ids: &'a [Bson]) -> Self {
        Self {
            left: vec![ids],
            moved: Moved::default(),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<&'a [Bson]> {
        self.left.pop()
    }

    /// Adds the result of a part.
    ///
    /// # Errors
    /// That of the part, unless fewer documents may move.
    pub(crate) fn add(&mut self, part: &'a [Bson], done: Result<Moved>) -> Result<()> {
        match done {
            Ok(done) => self.moved.add(done),
            Err(error) if !matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::Contention) => return Err(error),
            Err(error) if part.len() == 1 && error.kind() == ErrorKind::TooLarge => self.moved.too_large += 1,
            Err(_) if part.len() == 1 => self.moved.busy += 1,
            Err(_) => self.left.extend([&part[part.len() / 2..], &part[..part.len() / 2]]),
        }
        Ok(())
    }
}

impl Transfer<'_> {
    /// Moves those of the documents that still match, or lists the commands of a plan. Each of them is in one of the collections, for every reader of a
    /// snapshot.
    ///
    /// # Errors
    /// Those of the insert, and those of the driver. Parts of the chunk may have moved.
    pub(crate) async fn chunk(self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Moved> {
        let mut parts = Parts::of(ids);
        while let Some(part) = parts.pop() {
            let done = match conn.is_plan() {
                true => self.plan(part, conn).await,
                false => self.part(part, conn).await,
            };
            match done {
                // Newer ones would move before it.
                Err(error) if part.len() == 1 && self.newest.is_some() => return Err(error),
                done => parts.add(part, done)?,
            }
        }
        Ok(parts.moved)
    }

    /// Moves documents together, or none of them. Expects that the target has none of them, which is nearly always so.
    async fn part(self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Moved> {
        let in_order = self.newest.is_some() && !self.replaces;
        match self.run(ids, false, conn).await {
            Err(error) if may_be_there(&error) && !in_order => self.run(ids, true, conn).await,
            moved => moved,
        }
    }

    async fn run(self, ids: &[Bson], looks: bool, conn: &mut Conn<'_>) -> Result<Moved> {
        let most = self.retry.max_attempts.min(ATTEMPTS);
        let hurried = self.retry.clone().with_max_attempts(most);
        match self.run_with(&hurried, ids, looks, conn).await {
            // A failover, for which the policy has more time.
            Err(error) if error.kind() != ErrorKind::Contention && may_pass(&error) => {
                self.run_with(self.retry, ids, looks, conn).await
            }
            moved => moved,
        }
    }

    async fn run_with(self, retry: &RetryPolicy, ids: &[Bson], looks: bool, conn: &mut Conn<'_>) -> Result<Moved> {
        transaction::run(
            self.from,
            retry,
            conn,
            (self, ids, looks),
            |conn, (transfer, ids, looks)| Box::pin(transfer.attempt(ids, *looks, conn)),
        )
        .await
    }

    /// Returns what [`part`](Self::part) would move. Lists its commands.
    async fn plan(self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Moved> {
        self.attempt(ids, false, conn).await?;
        self.attempt(ids, true, &mut Conn::plan()).await
    }

    /// Moves documents, in a transaction. `looks` if it looks for their `_id`s in the target first.
    async fn attempt(self, ids: &[Bson], looks: bool, conn: &mut Conn<'_>) -> Result<Moved> {
        let Self { from, to, .. } = self;
        let (mut moved, mut replaced) = (Moved::default(), None);
        let mut filter = both(by_ids(ids), self.filter.clone());
        if let Some(newest) = self.newest {
            let Some(others) = newest.leave_out(from, filter, conn).await? else {
                return Ok(moved);
            };
            filter = others;
        }
        let mut documents = read(from, filter.clone(), conn).await?;
        if looks && !documents.is_empty() {
            let there = self.there(&documents, conn).await?;
            if self.replaces {
                replaced = there;
            } else if let Some(there) = there {
                let all = documents.len();
                // The server compares, to which ids of different types can be equal.
                documents = read(from, both(filter, doc! { "$nor": [there] }), conn).await?;
                moved.conflicts = (all - documents.len()) as u64;
            }
        }
        if documents.is_empty() {
            return Ok(moved);
        }
        let ids = crate::transfer::ids(&documents);
        let related = self.wholes.read(&documents, conn).await?;
        moved.count(&documents, &related, self.age);
        // First, because others write them and not their document.
        wholes::delete(&related, conn).await?;
        conn.write(Step::delete_many("delete documents", from, by_ids(&ids)))
            .await?;
        if let Some(replaced) = replaced {
            self.wholes.delete_replaced(&documents, to, &replaced, conn).await?;
            let delete = Step::delete_many("delete what is replaced", to, replaced);
            conn.write(delete).await?;
        }
        let insert = Step::insert_many("insert the documents", to, documents);
        conn.write(insert).await.map_err(|error| {
            let id = refused_document(&error).and_then(|at| ids.get(at).cloned());
            refused(error, to, id)
        })?;
        wholes::insert(&related, conn).await?;
        Ok(moved)
    }

    /// Matches those of these documents that the target has, or of which it has related ones.
    async fn there(self, documents: &[RawDocumentBuf], conn: &mut Conn<'_>) -> Result<Option<Document>> {
        let options = FindOptions::builder().projection(doc! { "_id": 1 }).build();
        let find = Step::find("look for their _ids", self.to, by_ids(&ids(documents)), options);
        let found = ids(&conn.read(find).await?.documents);
        let found = (!found.is_empty()).then(|| by_ids(&found));
        let of_related = self.wholes.there(documents, self.to, conn).await?;
        Ok(match (found, of_related) {
            (Some(found), Some(of_related)) => Some(doc! { "$or": [found, of_related] }),
            (found, of_related) => found.or(of_related),
        })
    }
}

pub(crate) async fn read(from: &Raw, filter: Document, conn: &mut Conn<'_>) -> Result<Vec<RawDocumentBuf>> {
    let find = Step::find("read documents", from, filter, FindOptions::default());
    Ok(conn.read(find).await?.documents)
}

/// Returns whether the target may have a document, or related ones of it.
fn may_be_there(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::DuplicateKey)
}

pub(crate) fn may_pass(error: &Error) -> bool {
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
