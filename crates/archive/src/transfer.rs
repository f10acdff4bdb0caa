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

use std::time::Duration;

use mongo_patterns_core::error::refused_document;
use mongo_patterns_core::lanes::Lanes;
use mongo_patterns_core::migration::{Step, both};
use mongo_patterns_core::{RetryPolicy, transaction};
use mongodb::options::FindOptions;

use crate::link::{Link, Move, STORED_WITHIN, is_taken, is_too_slow, too_slow, unless_taken};
use crate::newest::Newest;
use crate::prelude::*;
use crate::refused::refused;
use crate::results::{Moved, Restored};
use crate::wholes::{self, Moving, Part};

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
    /// If the archive is in another cluster.
    pub(crate) link: Option<Linked<'a>>,
    pub(crate) retry: &'a RetryPolicy,
    /// The field with the age.
    pub(crate) age: &'a str,
}

/// A move between clusters.
#[derive(Clone, Copy)]
pub(crate) struct Linked<'a> {
    pub(crate) link: &'a Link,
    /// In a process, one moves at a time, also after a call was dropped.
    pub(crate) lanes: &'a Lanes,
    /// Whether documents move from the archive.
    pub(crate) restores: bool,
}

/// A try to move documents.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    transfer: Transfer<'a>,
    ids: &'a [Bson],
    /// Whether it looks for their `_id`s in the target first.
    looks: bool,
    /// Between clusters, in a run.
    begun: Option<Move<'a>>,
    /// How long the documents may be locked while the archive's cluster stores them.
    stored_within: Duration,
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
            Err(error) if !is_of_documents(&error) => return Err(error),
            Err(error) if part.len() == 1 && is_too_slow(&error) => return Err(error),
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
        match self.run(self.attempt(ids, false), conn).await {
            Err(error) if may_be_there(&error) && !in_order => self.run(self.attempt(ids, true), conn).await,
            moved => moved,
        }
    }

    fn attempt<'b>(self, ids: &'b [Bson], looks: bool) -> Attempt<'b>
    where
        Self: 'b,
    {
        Attempt {
            transfer: self,
            ids,
            looks,
            begun: None,
            stored_within: STORED_WITHIN,
        }
    }

    /// Restores one document of another cluster.
    pub(crate) async fn one(self, linked: Linked<'_>, id: &Bson) -> Result<Moved> {
        let attempt = self.attempt(std::slice::from_ref(id), true);
        let moved = self.run_linked(linked, attempt, self.retry.max_attempts).await?;
        // It has moved; the next move ends the link otherwise.
        let _ = self.end_link().await;
        Ok(moved)
    }

    /// Ends the last move between clusters, if there is one.
    pub(crate) async fn end_link(self) -> Result<()> {
        match self.link {
            Some(linked) => linked.link.end(self.retry, linked.lanes.enter("").await).await,
            None => Ok(()),
        }
    }

    /// Begins a move, and runs it in a transaction of the source's cluster, until others have refused it that often.
    async fn run_linked(self, linked: Linked<'_>, mut attempt: Attempt<'_>, refusals: u32) -> Result<Moved> {
        let once = self.retry.clone().with_max_attempts(1);
        let (mut attempts, mut refused) = (self.retry.start(), 0);
        loop {
            let mut conn = Conn::enter(None, linked.lanes, "").await?;
            let moved = match linked.link.begin(linked.restores, self.retry, conn.lane()).await {
                Ok(begun) => {
                    let begun = Attempt {
                        begun: Some(begun),
                        ..attempt
                    };
                    self.run_with(&once, begun, &mut conn).await
                }
                Err(error) => Err(error),
            };
            drop(conn);
            let error = match moved {
                Ok(moved) => return Ok(moved),
                Err(error) => error,
            };
            match error.kind() {
                // Several documents are halved.
                _ if is_too_slow(&error) && attempt.ids.len() > 1 => return Err(error),
                _ if is_too_slow(&error) => attempt.stored_within *= 2,
                _ if is_taken(&error) => {}
                ErrorKind::Contention => refused += 1,
                // The driver has waited already.
                ErrorKind::ServerSelection => return Err(error),
                _ if may_pass(&error) => {}
                _ => return Err(error),
            }
            if refused == refusals || !attempts.wait().await {
                return Err(attempts.tried(error));
            }
        }
    }

    async fn run(self, attempt: Attempt<'_>, conn: &mut Conn<'_>) -> Result<Moved> {
        if let Some(linked) = self.link {
            return self.run_linked(linked, attempt, ATTEMPTS).await;
        }
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

    /// Returns what [`part`](Self::part) would move. Lists its commands.
    async fn plan(self, ids: &[Bson], conn: &mut Conn<'_>) -> Result<Moved> {
        self.attempt(ids, false).run(conn).await?;
        self.attempt(ids, true).run(&mut Conn::plan()).await
    }
}

impl Attempt<'_> {
    /// Runs in a transaction of the source's cluster.
    async fn run(self, conn: &mut Conn<'_>) -> Result<Moved> {
        let (Transfer { from, filter, .. }, begun) = (self.transfer, self.begun);
        if let Some(begun) = begun.filter(|begun| !begun.restores()) {
            unless_taken(begun.decide(conn).await?)?;
        }
        let (mut moved, mut replaced) = (Moved::default(), None);
        let mut filter = both(by_ids(self.ids), filter.clone());
        if let Some(newest) = self.transfer.newest {
            let Some(others) = newest.leave_out(from, filter, conn).await? else {
                return Ok(moved);
            };
            filter = others;
        }
        let mut documents = read(from, filter.clone(), conn).await?;
        if self.looks && !documents.is_empty() {
            let there = match begun {
                None => self.there(&documents, conn).await?,
                Some(_) => self.there(&documents, &mut Conn::new()).await?,
            };
            if self.transfer.replaces {
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
        let ids = ids(&documents);
        let related = self.transfer.wholes.read(&documents, conn).await?;
        moved.count(&documents, &related, self.transfer.age);
        // First, because others write them and not their document.
        wholes::delete(&related, conn).await?;
        conn.write(Step::delete_many("delete documents", from, by_ids(&ids)))
            .await?;
        let copy = Copy {
            transfer: self.transfer,
            ids,
            related,
            replaced,
        };
        match begun {
            None => copy.insert(documents, conn).await?,
            Some(begun) => {
                let conn = &mut Conn::in_lane(conn.lane());
                copy.insert_in_the_other_cluster(documents, begun, self.stored_within, conn)
                    .await?;
            }
        }
        Ok(moved)
    }

    /// Matches those of these documents that the target has, or of which it has related ones.
    async fn there(self, documents: &[RawDocumentBuf], conn: &mut Conn<'_>) -> Result<Option<Document>> {
        let to = self.transfer.to;
        let options = FindOptions::builder().projection(doc! { "_id": 1 }).build();
        let find = Step::find("look for their _ids", to, by_ids(&ids(documents)), options);
        let found = ids(&conn.read(find).await?.documents);
        let found = (!found.is_empty()).then(|| by_ids(&found));
        let of_related = self.transfer.wholes.there(documents, to, conn).await?;
        Ok(match (found, of_related) {
            (Some(found), Some(of_related)) => Some(doc! { "$or": [found, of_related] }),
            (found, of_related) => found.or(of_related),
        })
    }
}

/// The documents of an attempt on their way to the target.
struct Copy<'a> {
    transfer: Transfer<'a>,
    ids: Vec<Bson>,
    related: Vec<Part>,
    /// Matches those of the target that they replace.
    replaced: Option<Document>,
}

impl Copy<'_> {
    async fn insert(&self, documents: Vec<RawDocumentBuf>, conn: &mut Conn<'_>) -> Result<()> {
        let to = self.transfer.to;
        if let Some(replaced) = &self.replaced {
            let wholes = self.transfer.wholes;
            wholes.delete_replaced(&documents, to, replaced, conn).await?;
            let delete = Step::delete_many("delete what is replaced", to, replaced.clone());
            conn.write(delete).await?;
        }
        let insert = Step::insert_many("insert the documents", to, documents);
        conn.write(insert).await.map_err(|error| {
            let id = refused_document(&error).and_then(|at| self.ids.get(at).cloned());
            refused(error, to, id)
        })?;
        wholes::insert(&self.related, conn).await
    }

    /// Records what the archive has because of the move.
    async fn record(&self, begun: Move<'_>, conn: &mut Conn<'_>) -> Result<bool> {
        let related = self.related.iter().map(|part| part.recorded(begun.restores()));
        begun.record(&self.ids, related.collect(), conn).await
    }

    /// Runs while the transaction of the source's cluster is open.
    async fn insert_in_the_other_cluster(
        self,
        documents: Vec<RawDocumentBuf>,
        begun: Move<'_>,
        within: Duration,
        conn: &mut Conn<'_>,
    ) -> Result<()> {
        let Transfer { to, retry, .. } = self.transfer;
        if begun.restores() {
            unless_taken(self.record(begun, conn).await?)?;
        }
        let context = (&self, &documents, begun);
        let copied = transaction::run(to, retry, conn, context, |conn, (copy, documents, begun)| {
            Box::pin(async move {
                let is_ours = match begun.restores() {
                    true => begun.decide(conn).await?,
                    false => copy.record(*begun, conn).await?,
                };
                if is_ours {
                    copy.insert(documents.to_vec(), conn).await?;
                }
                Ok(is_ours)
            })
        });
        let copied = match begun.restores() {
            true => copied.await?,
            false => {
                let copied = tokio::time::timeout(within, copied).await;
                copied.unwrap_or_else(|_| Err(too_slow()))?
            }
        };
        unless_taken(copied)
    }
}

pub(crate) async fn read(from: &Raw, filter: Document, conn: &mut Conn<'_>) -> Result<Vec<RawDocumentBuf>> {
    let find = Step::find("read documents", from, filter, FindOptions::default());
    Ok(conn.read(find).await?.documents)
}

/// Returns whether fewer documents may move.
fn is_of_documents(error: &Error) -> bool {
    error.kind() == ErrorKind::TooLarge || error.kind() == ErrorKind::Contention && !is_taken(error)
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
