//! The parts that all writes to a key share: the `_id` of a new bucket, and the meaning of an error.
//!
//! # Design
//!
//! ## Why does every write name its index in a hint?
//!
//! An upsert without the unique index would break the guarantees. With the hint the server refuses it, without a further
//! round trip.
//!
//! ## Why are item ids checked by an index and by the filter?
//!
//! A unique index on key and item ids keeps an item out of a second bucket. But a unique multikey index does not compare the
//! elements of one document. There the filter does, with `$ne`: it does not match an open bucket that has the item. The
//! upsert then conflicts with the unique index, and a read of the ids distinguishes a repeated item from a race.

use std::collections::HashSet;

use mongo_patterns_core::action::one_batch;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::{CommandError, duplicate_key, lost_race};
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Result};
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocumentBuf};
use mongodb::options::{FindOneOptions, FindOptions, Hint};

use crate::form::document::id_of;
use crate::form::id::Tail;
use crate::form::item_id::ItemId;
use crate::query::append::open_bucket_of_any_id;
use crate::query::buckets::{buckets_of_second, by_id, only_id};
use crate::query::item::{buckets_with_items, only_item_ids};
use crate::repository::Shared;

/// The number of opens by other writers after which a write checks the `_id` of the open bucket.
const OPENS_BY_OTHERS: u32 = 3;

/// The number of item ids that one command looks up.
const IDS_OF_A_COMMAND: usize = 1000;

/// The unique index on which two writers collided.
pub(crate) enum Collision {
    /// The `_id` of the new bucket is taken.
    Id,
    /// Another writer opened a bucket of the key, in the same window.
    Open,
    /// Another bucket of the key has an item with this id.
    Item,
}

#[derive(Clone, Copy)]
pub(crate) struct KeyWrite<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) key: &'a EncodedKey,
}

impl KeyWrite<'_> {
    /// Checks, once for a repository, that the index of the item ids exists. The hint of a write names the other index.
    pub(crate) async fn check_item_index(&self) -> Result<()> {
        let shared = self.shared;
        match shared.settings.item_id {
            None => Ok(()),
            Some(_) => shared.checks.indexes(|| shared.ensure()).await,
        }
    }

    /// Returns the ids that stored items of the key have.
    pub(crate) async fn stored_ids(&self, ids: &[&ItemId], conn: &mut Conn<'_>) -> Result<HashSet<ItemId>> {
        let (collection, settings) = self.shared.parts();
        let mut stored = HashSet::new();
        if ids.is_empty() {
            return Ok(stored);
        }
        let (Some(field), Some(path), Some(index)) =
            (&settings.item_id, settings.item_id_path(), settings.item_index())
        else {
            return Ok(stored);
        };
        for ids in ids.chunks(IDS_OF_A_COMMAND) {
            let filter = buckets_with_items(settings, self.key, ids);
            let options = FindOptions::builder()
                .projection(only_item_ids(&path))
                .hint(Hint::Name(index.clone()))
                .batch_size(one_batch(ids.len()))
                .build();
            let offered: HashSet<&ItemId> = ids.iter().copied().collect();
            for bucket in conn.find_all(collection, filter, options).await? {
                let Ok(items) = bucket.get_array(settings.items.as_str()) else {
                    continue;
                };
                let items = items.into_iter().flatten().filter_map(RawBsonRef::as_document);
                let found = items.filter_map(|item| item.get(field.as_str()).ok().flatten());
                stored.extend(found.filter_map(ItemId::from_stored).filter(|id| offered.contains(id)));
            }
        }
        Ok(stored)
    }

    /// Returns the suffix after the last one of a second.
    pub(crate) async fn free_suffix(&self, second: &str, conn: &mut Conn<'_>) -> Result<u32> {
        let of_second = buckets_of_second(&self.shared.settings, self.key, second);
        let found = self.find_last(of_second, None, conn).await?;
        let id = found.as_ref().and_then(|found| found.get_str("_id").ok());
        match id.and_then(|id| self.key.tail(id)) {
            Some(tail) => match Tail::parse(tail) {
                Some(tail) => Ok(tail.suffix + 1),
                None => Err(foreign_id(Bson::String(self.key.id(tail)))),
            },
            None => Ok(0),
        }
    }

    /// Returns the last `_id` that matches, read from the primary: a stale state must not decide where a write goes.
    async fn find_last(
        &self,
        filter: Document,
        hint: Option<Hint>,
        conn: &mut Conn<'_>,
    ) -> Result<Option<RawDocumentBuf>> {
        let options = FindOneOptions::builder()
            .sort(by_id(true))
            .projection(only_id())
            .hint(hint)
            .build();
        let found = conn.find_one(&self.shared.collection, filter, options).await;
        found.map_err(|error| self.failed(error))
    }

    /// Returns the open bucket of a window, or of the key without windows, with any `_id`.
    pub(crate) async fn open_bucket(&self, window: Option<i64>, conn: &mut Conn<'_>) -> Result<Option<RawDocumentBuf>> {
        let settings = &self.shared.settings;
        let hint = Hint::Name(settings.open_index.clone());
        let filter = open_bucket_of_any_id(settings, self.key, window);
        self.find_last(filter, Some(hint), conn).await
    }

    /// Checks the `_id` of the open bucket from time to time while other writers open the key's bucket. An open bucket of
    /// another key or window would prevent every open.
    pub(crate) async fn check_open_bucket(
        &self,
        window: Option<i64>,
        opens_by_others: u32,
        conn: &mut Conn<'_>,
    ) -> Result<()> {
        if !opens_by_others.is_multiple_of(OPENS_BY_OTHERS) {
            return Ok(());
        }
        let windows = self.shared.settings.windows.as_ref();
        let of_window = |tail: &str| windows.is_none_or(|windows| windows.of_tail(tail) == window);
        let open = self.open_bucket(window, conn).await?;
        match open.map(|open| id_of(&open)) {
            Some(id) if !id.as_str().and_then(|id| self.key.tail(id)).is_some_and(of_window) => Err(foreign_id(id)),
            _ => Ok(()),
        }
    }

    pub(crate) fn collision(&self, error: &CommandError) -> Option<Collision> {
        let settings = &self.shared.settings;
        let duplicate = duplicate_key(error)?;
        let index = duplicate.index.as_deref();
        match duplicate.fields.as_slice() {
            _ if index == Some("_id_") => Some(Collision::Id),
            _ if index == Some(settings.open_index.as_str()) => Some(Collision::Open),
            _ if index.is_some() && index == settings.item_index().as_deref() => Some(Collision::Item),
            [field] if index.is_none() && field == "_id" => Some(Collision::Id),
            fields if index.is_none() && settings.open_fields() == fields => Some(Collision::Open),
            [_, path] if index.is_none() && Some(path) == settings.item_id_path().as_ref() => Some(Collision::Item),
            _ => None,
        }
    }

    /// Returns the error of a command that names the index of the open buckets.
    pub(crate) fn failed(&self, error: CommandError) -> Error {
        let other = duplicate_key(&error).filter(|_| self.collision(&error).is_none());
        let Some(other) = other else {
            return lost_race(error);
        };
        let name = other.index.unwrap_or_default();
        let settings = &self.shared.settings;
        let is_of_key = other.fields == [settings.key.as_str()];
        let (kind, reason) = if is_of_key || settings.open_fields() == other.fields {
            (
                ErrorKind::IndexMismatch,
                "it belongs to another page size, or to other windows: drop it",
            )
        } else {
            (
                ErrorKind::DuplicateKey,
                "it is not an index of the pattern: store other values, or drop it",
            )
        };
        let message = format!("the unique index `{name}` refused the write, nothing was stored; {reason}");
        Error::from_driver(kind, message, error)
    }
}

fn foreign_id(id: Bson) -> Error {
    Error::corrupt(
        id,
        "_id",
        "the `_id` of a bucket of this key is not the encoded key, `_`, and a second, or it is of another window, the write was not stored: repair the bucket",
    )
}
