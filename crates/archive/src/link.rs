//! Moves between two clusters, which have no common transaction.
//!
//! # Design
//!
//! ## How do two clusters decide together?
//!
//! The cluster of the collection decides, for moves in both directions. A move has taken effect when the transaction there
//! commits: it stores the id of the move in the catalog's entry of the archive. The archive's cluster has a record of the
//! last move, with the `_id`s of its documents and of the related ones, which it stores in the transaction that inserts them. So a later call knows
//! which documents the archive has of a move that did not take effect, or still has of a restore that did, and deletes them.
//!
//! ## Why is the entry written before the record is judged?
//!
//! The process of the last move may be paused, and commit later. A write of the entry waits for its transaction, and changes
//! the id of the move that may take effect. So a transaction that begins later does not find its own.
//!
//! ## What if a catalog was deleted, or restored from a backup?
//!
//! A record says which move was the last one before it. If the entry has neither of the two, the catalogs do not belong
//! together, and nothing is deleted.
//!
//! ## Why is the transaction of the other cluster bounded?
//!
//! While documents are copied to the archive's cluster, they are locked in the collection. If that cluster does not answer,
//! their writers would wait until the driver gives up. A single document has more time with each attempt. Each of them begins
//! with a command to that cluster, so nothing is locked again before it answers.

use std::time::Duration;

use mongo_patterns_core::catalog::{Entry, catalog_of};
use mongo_patterns_core::lanes::Lane;
use mongo_patterns_core::{RetryPolicy, transaction};
use mongodb::bson::oid::ObjectId;
use mongodb::error::Error as DriverError;
use mongodb::options::{CollectionOptions, FindOneAndUpdateOptions, UpdateOptions, WriteConcern};

use crate::prelude::*;

/// How long documents of the collection are locked at first while the archive's cluster stores them.
pub(crate) const STORED_WITHIN: Duration = Duration::from_secs(1);

const NO_IDS: [Bson; 0] = [];

/// The two catalogs of an archive in another cluster.
pub(crate) struct Link {
    /// The catalog of the collection's cluster, and the filter of the archive's entry in it.
    catalog: Raw,
    entry: Document,
    /// The catalog of the archive's cluster, and the filter of the record in it.
    records: Raw,
    record: Document,
    archived: Raw,
}

/// A move that has begun.
#[derive(Clone, Copy)]
pub(crate) struct Move<'a> {
    link: &'a Link,
    id: ObjectId,
    restores: bool,
}

/// The record of the last move.
#[derive(PartialEq)]
struct Last {
    id: Option<ObjectId>,
    before: Option<ObjectId>,
    restores: bool,
    ids: Vec<Bson>,
    /// The related documents, as [`Part::recorded`](crate::wholes::Part::recorded) returns them.
    related: Vec<Document>,
}

impl Link {
    pub(crate) fn new(current: &Raw, archived: &Raw) -> Self {
        let majority = || Some(WriteConcern::majority());
        Self {
            catalog: catalog_of(current, majority()),
            entry: Entry::new("archive", current, None, Document::new()).filter(),
            records: catalog_of(archived, majority()),
            record: doc! { "_id": { "kind": "archive_of", "collection": current.namespace().to_string(), "archive": archived.name() } },
            archived: archived.clone(),
        }
    }

    /// Begins a move. Ends the last one before, as the collection's cluster has decided. Three round trips, and more
    /// for the first move, and for one that was left to end.
    ///
    /// # Errors
    /// [`Contention`](ErrorKind::Contention) when another call has begun one, and those of [`end`](Self::end).
    pub(crate) async fn begin(&self, restores: bool, retry: &RetryPolicy, lane: Lane) -> Result<Move<'_>> {
        let (id, conn) = (ObjectId::new(), &mut Conn::in_lane(lane));
        let last = self.last(conn).await?;
        let before = self.decided(id, conn).await?;
        let ended = self.end_as(&last, before, retry, conn).await?;
        if last.id.is_none() {
            self.create(conn).await?;
        }
        // The last move may have recorded its `_id`s since.
        let recorded = if ended { Vec::new() } else { last.ids };
        let begin = doc! { "$set": { "move": id, "before": before, "restores": restores, "ids": NO_IDS }, "$unset": { "related": 1 } };
        unless_taken(self.change(last.id, &recorded, begin, conn).await?)?;
        Ok(Move {
            link: self,
            id,
            restores,
        })
    }

    /// Ends the last move, as the collection's cluster has decided. One round trip when it has ended, otherwise three, or
    /// five.
    ///
    /// # Errors
    /// [`SettingsMismatch`](ErrorKind::SettingsMismatch) when the two catalogs do not belong together.
    pub(crate) async fn end(&self, retry: &RetryPolicy, lane: Lane) -> Result<()> {
        let conn = &mut Conn::in_lane(lane);
        let last = self.last(conn).await?;
        if last.ids.is_empty() {
            return Ok(());
        }
        let decided = self.decided(ObjectId::new(), conn).await?;
        if !self.end_as(&last, decided, retry, conn).await? {
            // Otherwise another move has begun, which has ended this one.
            self.change(last.id, &last.ids, without_ids(), conn).await?;
        }
        Ok(())
    }

    /// Returns the documents that the archive has, or still has, because of a move that has not ended.
    pub(crate) async fn unfinished(&self) -> Result<Vec<Bson>> {
        Ok(self.last(&mut Conn::new()).await?.ids)
    }

    async fn last(&self, conn: &mut Conn<'_>) -> Result<Last> {
        let found = conn.find_one(&self.records, self.record.clone(), None).await?;
        let found = found.map(|found| Document::try_from(found.as_ref())).transpose();
        let found = found.map_err(DriverError::from)?.unwrap_or_default();
        Ok(Last {
            id: found.get_object_id("move").ok(),
            before: found.get_object_id("before").ok(),
            restores: found.get_bool("restores").unwrap_or_default(),
            ids: found.get_array("ids").cloned().unwrap_or_default(),
            related: related_of(&found),
        })
    }

    async fn create(&self, conn: &mut Conn<'_>) -> Result<()> {
        let options = UpdateOptions::builder().upsert(true).build();
        let create = doc! { "$setOnInsert": { "move": Bson::Null, "ids": NO_IDS } };
        conn.update_one(&self.records, self.record.clone(), create, options)
            .await?;
        Ok(())
    }

    /// Returns the last move that took effect. No earlier one can take effect any more.
    async fn decided(&self, attempt: ObjectId, conn: &mut Conn<'_>) -> Result<Option<ObjectId>> {
        let options = FindOneAndUpdateOptions::builder()
            .projection(doc! { "move": 1 })
            .build();
        let update = doc! { "$set": { "attempt": attempt } };
        let entry = conn.find_one_and_update(&self.catalog, self.entry.clone(), update, options);
        match entry.await? {
            Some(entry) => Ok(entry.get_object_id("move").ok()),
            None => Err(unrelated()),
        }
    }

    /// Deletes what the archive has of a move that did not take effect, or still has of a restore that did, unless another call
    /// has done so since. Returns whether there was something to delete.
    async fn end_as(
        &self,
        last: &Last,
        decided: Option<ObjectId>,
        retry: &RetryPolicy,
        conn: &mut Conn<'_>,
    ) -> Result<bool> {
        if last.ids.is_empty() {
            return Ok(false);
        }
        let took_effect = decided == last.id;
        if !took_effect && decided != last.before {
            // Otherwise a further move has taken effect since the record was read.
            let is_last = self.last(conn).await? == *last;
            return if is_last { Err(unrelated()) } else { Ok(true) };
        }
        if took_effect != last.restores {
            return Ok(false);
        }
        transaction::run(&self.records, retry, conn, (self, last), |conn, (link, last)| {
            Box::pin(async move {
                if link.change(last.id, &last.ids, without_ids(), conn).await? {
                    conn.delete_many(&link.archived, by_ids(&last.ids), None).await?;
                    link.delete_related(&last.related, conn).await?;
                }
                Ok(true)
            })
        })
        .await
    }

    async fn delete_related(&self, related: &[Document], conn: &mut Conn<'_>) -> Result<()> {
        for one in related {
            let (Ok(db), Ok(name), Ok(ids)) = (one.get_str("db"), one.get_str("collection"), one.get_array("ids"))
            else {
                return Err(unrelated());
            };
            let collection = self.archived.client().database(db).collection(name);
            conn.delete_many(&collection, by_ids(ids), None).await?;
        }
        Ok(())
    }

    /// Changes the record of a move with these `_id`s. Returns `false` if it is another one by now.
    async fn change(&self, id: Option<ObjectId>, ids: &[Bson], update: Document, conn: &mut Conn<'_>) -> Result<bool> {
        let mut filter = self.record.clone();
        filter.extend(doc! { "move": id, "ids": { "$eq": ids } });
        let changed = conn.update_one(&self.records, filter, update, None).await?;
        Ok(changed.matched_count == 1)
    }
}

impl Move<'_> {
    pub(crate) fn restores(self) -> bool {
        self.restores
    }

    /// Lets the move take effect when the transaction of the collection's cluster commits. Its first write. Returns `false` if
    /// another move has begun, which has judged this one.
    pub(crate) async fn decide(self, conn: &mut Conn<'_>) -> Result<bool> {
        let Link { catalog, entry, .. } = self.link;
        let mut filter = entry.clone();
        filter.insert("attempt", self.id);
        let decide = doc! { "$set": { "move": self.id } };
        Ok(conn.update_one(catalog, filter, decide, None).await?.matched_count == 1)
    }

    /// Records the documents, and the related ones. Returns `false` if another move has begun.
    pub(crate) async fn record(self, ids: &[Bson], related: Vec<Document>, conn: &mut Conn<'_>) -> Result<bool> {
        let mut set = doc! { "ids": ids };
        if !related.is_empty() {
            set.insert("related", related);
        }
        let set = doc! { "$set": set };
        self.link.change(Some(self.id), &NO_IDS, set, conn).await
    }
}

/// Returns the collection with confirmed writes, because what one cluster decides must last when the other one follows.
pub(crate) fn confirmed(collection: &Raw) -> Raw {
    let options = CollectionOptions::builder()
        .selection_criteria(collection.selection_criteria().cloned())
        .read_concern(collection.read_concern().cloned())
        .write_concern(WriteConcern::majority())
        .build();
    let database = collection.client().database(&collection.namespace().db);
    database.collection_with_options(collection.name(), options)
}

fn related_of(record: &Document) -> Vec<Document> {
    let related = record.get_array("related").into_iter().flatten();
    related
        .map(|one| one.as_document().cloned().unwrap_or_default())
        .collect()
}

fn without_ids() -> Document {
    doc! { "$set": { "ids": NO_IDS } }
}

/// Returns the error of a move for which another one has taken the place, unless none has.
pub(crate) fn unless_taken(is_ours: bool) -> Result<()> {
    match is_ours {
        true => Ok(()),
        false => Err(Error::from_driver(
            ErrorKind::Contention,
            "other moves of the archive exhausted the retry policy, nothing was changed: retry later",
            DriverError::custom(Taken),
        )),
    }
}

/// The cause of the error of a move for which another one has taken the place.
struct Taken;

/// Returns whether another move has taken the place of one.
pub(crate) fn is_taken(error: &Error) -> bool {
    let cause = error.as_driver_error();
    cause.is_some_and(|cause| cause.get_custom::<Taken>().is_some())
}

/// Returns the error of documents that the archive's cluster has not stored in time.
pub(crate) fn too_slow() -> Error {
    Error::new(
        ErrorKind::Contention,
        "the archive's cluster did not store a document in time, so it stays, nothing was changed: retry later",
    )
}

pub(crate) fn is_too_slow(error: &Error) -> bool {
    error.kind() == ErrorKind::Contention && error.as_driver_error().is_none()
}

fn unrelated() -> Error {
    Error::new(
        ErrorKind::SettingsMismatch,
        "the catalogs of the two clusters do not belong together, nothing was changed: call ensure_indexes() if the collection's catalog has no entry of the archive; if one catalog was deleted or is that of a backup, compare the documents that verify() names, and then delete the record of kind `archive_of` in the archive's catalog",
    )
}
