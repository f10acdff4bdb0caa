//! One item, which its id identifies: how it is found and changed.
//!
//! # Design
//!
//! ## Why does a change that matched nothing read before it returns `NotFound`?
//!
//! A concurrent removal moves items to buckets that the server has already passed.

use mongo_patterns_core::error::is_bad_hint;
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::{IntoId, Updated};

use crate::form::item_id::ItemId;
use crate::prelude::*;
use crate::query::item::{bucket_with, only_count};
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::key_write::KeyWrite;

/// A key, and the id of one of its items.
pub(crate) struct OneItem {
    pub(crate) key: EncodedKey,
    pub(crate) id: ItemId,
    /// The field of an item that contains the id.
    pub(crate) field: FieldName,
    /// Its path in a bucket.
    pub(crate) path: String,
    /// The index on that path.
    index: String,
}

mongo_patterns_core::redacted_debug!(OneItem, |item| "path" = item.path);

impl OneItem {
    /// Checks a key and an id. The error of the id names the key.
    pub(crate) fn new<Q: EncodeKey + ?Sized>(settings: &Settings, key: &Q, id: impl IntoId) -> Result<Self> {
        let key = key.encode_key()?;
        Self::of_key(settings, key, id.into_id().and_then(ItemId::from_bson))
    }

    pub(crate) fn of_key(settings: &Settings, key: EncodedKey, id: Result<ItemId>) -> Result<Self> {
        let id = id.map_err(|error| error.with_key(key.text()))?;
        let (Some(field), Some(path), Some(index)) =
            (&settings.item_id, settings.item_id_path(), settings.item_index())
        else {
            return Err(no_item_id_field());
        };
        Ok(Self {
            key,
            id,
            field: field.clone(),
            path,
            index,
        })
    }

    /// Filters the bucket that has the item.
    pub(crate) fn filter(&self, settings: &Settings) -> Document {
        bucket_with(settings, &self.key, &self.path, &self.id)
    }

    pub(crate) fn hint(&self) -> Hint {
        Hint::Name(self.index.clone())
    }

    /// Returns the bucket that has the item, without its items, read from the primary.
    pub(crate) async fn find(
        &self,
        shared: &Shared,
        session: Option<&mut Session<'_>>,
    ) -> Result<Option<RawDocumentBuf>> {
        let (collection, settings) = shared.parts();
        let mut options = FindOneOptions::builder()
            .projection(only_count(settings))
            .hint(self.hint())
            .build();
        if session.is_none() {
            options.selection_criteria = Some(primary());
            options.read_concern = Some(ReadConcern::local());
        }
        let found = send::find_one(session, collection, self.filter(settings), options).await;
        found.map_err(|error| self.failed(shared, error))
    }

    /// Updates the item in its bucket.
    pub(crate) async fn update(
        &self,
        shared: &Shared,
        update: Document,
        mut session: Option<&mut Session<'_>>,
    ) -> Result<Updated> {
        let (collection, settings) = shared.parts();
        let _locked = shared.lock_shared(&self.key, session.as_deref()).await;
        let mut attempts = settings.retry.start();
        loop {
            let filter = self.filter(settings);
            let options = UpdateOptions::builder().hint(self.hint()).build();
            let updated = send::update_one(session.as_deref_mut(), collection, filter, update.clone(), options).await;
            let updated = updated.map_err(|error| self.failed(shared, error))?;
            if updated.matched_count > 0 {
                return Ok(Updated::new(updated.modified_count > 0));
            }
            if self.find(shared, session.as_deref_mut()).await?.is_none() {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    "the key has no item with this id, nothing was changed: append it",
                ));
            }
            if session.is_some() {
                return Err(Error::new(
                    ErrorKind::Contention,
                    "another writer moved the item concurrently, nothing was changed: run the operation again",
                ));
            }
            let moved = CommandError::custom("other writers moved the item concurrently");
            attempts.next(moved).await?;
        }
    }

    /// Returns the error of a command that names the index of the item ids.
    pub(crate) fn failed(&self, shared: &Shared, error: CommandError) -> Error {
        if is_bad_hint(&error) {
            return index_missing(&self.index).caused_by(error);
        }
        let key = &self.key;
        KeyWrite { shared, key }.failed(error)
    }
}

pub(crate) fn no_item_id_field() -> Error {
    Error::new(
        ErrorKind::Configuration,
        "the repository has no item id field, by which single items are found: call item_id_field(..) on the builder",
    )
}
