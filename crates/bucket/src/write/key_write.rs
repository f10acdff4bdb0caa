//! What all writes share: where a new bucket goes, and what a refusal means.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use mongo_patterns_core::error::{duplicate_key, is_bad_hint};
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::send::find_all;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Result, send};
use mongodb::bson::{Bson, DateTime, Document, RawBsonRef, RawDocumentBuf, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::{FindOneOptions, FindOptions, Hint, ReadConcern, ReadPreference, SelectionCriteria};

use crate::form::id::{self, Tail};
use crate::form::item_id::ItemId;
use crate::repository::Shared;
use crate::settings::Settings;
use crate::{IdPolicy, query};

/// How often another writer may open the key's bucket under our hands before we look whether it is one that we cannot
/// append to.
const OPENED_BY_OTHERS: u32 = 3;

/// How many ids of items are looked up in one command.
const IDS_AT_ONCE: usize = 1000;

/// The unique index on which two writers met.
pub(crate) enum Collision {
    /// The `_id` of the new bucket is taken.
    Id,
    /// The key has an open bucket by now.
    Open,
    /// Another bucket of the key has an item of this id.
    Item,
}

/// A write to one key.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) key: &'a EncodedKey,
}

impl Write<'_> {
    /// Checks, once for a repository, that the index of the item ids exists: a write cannot name it in its hint, which
    /// names the other one.
    pub(crate) async fn check_item_index(&self) -> Result<()> {
        let Shared {
            collection,
            settings,
            has_item_index,
            ..
        } = self.shared;
        if settings.item_id.is_none() || has_item_index.load(Ordering::Relaxed) {
            return Ok(());
        }
        settings.index_plan(collection.name()).check(collection).await?;
        has_item_index.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Which of these ids are those of stored items of the key.
    pub(crate) async fn stored_ids(
        &self,
        ids: &[&ItemId],
        mut session: Option<&mut Session<'_>>,
    ) -> Result<HashSet<ItemId>> {
        let Shared {
            collection, settings, ..
        } = self.shared;
        let mut stored = HashSet::new();
        if ids.is_empty() {
            return Ok(stored);
        }
        let (Some(field), Some(path), Some(index)) =
            (&settings.item_id, settings.item_id_path(), settings.item_index())
        else {
            return Ok(stored);
        };
        for ids in ids.chunks(IDS_AT_ONCE) {
            let filter = query::buckets_with_items(settings, self.key, ids);
            let options = FindOptions::builder()
                .projection(doc! { "_id": 0, path.as_str(): 1 })
                .hint(Hint::Name(index.clone()))
                .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
                .read_concern(session.is_none().then(ReadConcern::local))
                .build();
            let offered: HashSet<&ItemId> = ids.iter().copied().collect();
            for bucket in find_all(session.as_deref_mut(), collection, filter, options).await? {
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

    /// The suffix after the last one of a second.
    pub(crate) async fn free_suffix(&self, second: &str) -> Result<u32> {
        match self.newest_tail(Some(second), None).await? {
            Some(tail) => Ok(self.parse(&tail)?.suffix + 1),
            None => Ok(0),
        }
    }

    /// The tail of a bucket that does not exist: the second, with a suffix where that is taken, or, by policy, where
    /// the key has a later bucket.
    pub(crate) async fn free_tail(&self, second: &str, session: Option<&mut Session<'_>>) -> Result<String> {
        let within = match self.shared.settings.id_policy {
            IdPolicy::ItemTime => Some(second),
            IdPolicy::Monotonic => None,
        };
        match self.newest_tail(within, session).await? {
            Some(newest) if newest.as_str() >= second => self.parse(&newest)?.successor(),
            _ => Ok(second.to_owned()),
        }
    }

    /// The tail of the key's newest bucket, or of the newest of a second.
    pub(crate) async fn newest_tail(
        &self,
        second: Option<&str>,
        session: Option<&mut Session<'_>>,
    ) -> Result<Option<String>> {
        let settings = &self.shared.settings;
        let filter = match second {
            Some(second) => query::buckets_of_second(settings, self.key, second),
            None => query::buckets_of_key(settings, self.key),
        };
        let found = self.look(filter, None, session).await?;
        let id = found.as_ref().and_then(|found| found.get_str("_id").ok());
        Ok(id.and_then(|id| self.key.tail(id)).map(str::to_owned))
    }

    /// The last `_id` that matches, as the primary has it now: where a write goes does not follow from a secondary's, or
    /// an older, state, whatever the collection's reads are set to.
    async fn look(
        &self,
        filter: Document,
        hint: Option<Hint>,
        session: Option<&mut Session<'_>>,
    ) -> Result<Option<RawDocumentBuf>> {
        let options = FindOneOptions::builder()
            .sort(doc! { "_id": -1 })
            .projection(doc! { "_id": 1 })
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(session.is_none().then(ReadConcern::local))
            .hint(hint)
            .build();
        let found = send::find_one(session, &self.shared.collection, filter, options).await;
        found.map_err(|error| self.failed(error))
    }

    /// The open bucket of the key, whatever its `_id`.
    pub(crate) async fn open_bucket(&self, session: Option<&mut Session<'_>>) -> Result<Option<RawDocumentBuf>> {
        let settings = &self.shared.settings;
        let hint = Hint::Name(settings.open_index.clone());
        self.look(query::open_bucket_of_any_id(settings, self.key), Some(hint), session)
            .await
    }

    pub(crate) fn parse<'t>(&self, tail: &'t str) -> Result<Tail<'t>> {
        Tail::parse(tail).ok_or_else(|| self.foreign_id(Bson::String(self.key.id(tail))))
    }

    /// When others have opened the key's bucket so many times: an open bucket whose `_id` is not of this key would keep
    /// us from opening one, and we would never find it.
    pub(crate) async fn check_open_bucket(&self, opened_by_others: u32) -> Result<()> {
        if !opened_by_others.is_multiple_of(OPENED_BY_OTHERS) {
            return Ok(());
        }
        let open = self.open_bucket(None).await?;
        let id = open.and_then(|open| open.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok()));
        match id {
            Some(id) if id.as_str().and_then(|id| self.key.tail(id)).is_none() => Err(self.foreign_id(id)),
            _ => Ok(()),
        }
    }

    fn foreign_id(&self, id: Bson) -> Error {
        Error::corrupt(
            id,
            "_id",
            "the `_id` of a bucket of this key is not the encoded key, `_`, and the second at which it was opened, so it cannot be appended to, the write was not stored: repair it",
        )
    }

    pub(crate) fn collision(&self, error: &DriverError) -> Option<Collision> {
        let settings = &self.shared.settings;
        let duplicate = duplicate_key(error)?;
        let index = duplicate.index.as_deref();
        match duplicate.fields.as_slice() {
            _ if index == Some("_id_") => Some(Collision::Id),
            _ if index == Some(settings.open_index.as_str()) => Some(Collision::Open),
            _ if index.is_some() && index == settings.item_index().as_deref() => Some(Collision::Item),
            [field] if index.is_none() && field == "_id" => Some(Collision::Id),
            [field] if index.is_none() && field == settings.key.as_str() => Some(Collision::Open),
            [_, path] if index.is_none() && Some(path) == settings.item_id_path().as_ref() => Some(Collision::Item),
            _ => None,
        }
    }

    pub(crate) fn failed(&self, error: DriverError) -> Error {
        if is_bad_hint(&error) {
            return index_missing(&self.shared.settings.open_index).caused_by(error);
        }
        let other = duplicate_key(&error).filter(|_| self.collision(&error).is_none());
        let Some(other) = other else { return error.into() };
        let name = other.index.unwrap_or_default();
        let (kind, advice) = if other.fields == [self.shared.settings.key.as_str()] {
            (ErrorKind::IndexMismatch, "it is of another page size: drop it")
        } else {
            (ErrorKind::DuplicateKey, "it is an index of your own")
        };
        let message = format!("the unique index `{name}` refused the write, which was not stored: {advice}");
        Error::from_driver(kind, message, error)
    }
}

/// The second of an item: by the time that the caller gave, or that of the item's
/// time field, or now.
pub(crate) fn second_of(
    settings: &Settings,
    given: Option<DateTime>,
    in_item: impl FnOnce(&str) -> Option<DateTime>,
) -> Result<i64> {
    let time = match (given, &settings.time) {
        (Some(time), _) => time,
        (None, None) => DateTime::now(),
        (None, Some(field)) => in_item(field.as_str()).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidTime,
                format!("the item has no BSON date in its time field `{field}`, it was not stored: a type such as bson::DateTime is one"),
            )
        })?,
    };
    id::second(time)
}
