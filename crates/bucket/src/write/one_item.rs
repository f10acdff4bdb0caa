//! One item, which its id identifies: how it is found and changed.
//!
//! # Design
//!
//! ## Why does a change that matched nothing read before it returns `NotFound`?
//!
//! A concurrent removal moves items to buckets that the server has already passed.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::CommandError;
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, ErrorKind, FieldName, IntoId, Result, Updated};
use mongodb::bson::{DateTime, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::{FindOneAndUpdateOptions, FindOneOptions, Hint, UpdateModifications, UpdateOptions};

use crate::form::item_id::ItemId;
use crate::query::item::{bucket_with, only_item, without_items};
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::figures::FigureUpdate;
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
    /// The windows in which a change leaves the item: an operator, and the start of a window.
    pub(crate) stays_in: Option<(&'static str, DateTime)>,
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
            stays_in: None,
        })
    }

    /// Filters the bucket that has the item.
    pub(crate) fn filter(&self, settings: &Settings) -> Document {
        bucket_with(settings, &self.key, &self.path, &self.id)
    }

    /// Filters the bucket that has the item, if a change leaves the item in its window.
    fn filter_of_change(&self, settings: &Settings) -> Document {
        let mut filter = self.filter(settings);
        if let Some((windows, (operator, start))) = settings.windows.as_ref().zip(self.stays_in) {
            filter.insert(windows.field.as_str(), doc! { operator: start });
        }
        filter
    }

    /// Returns whether a change takes the item out of the window of its bucket.
    fn leaves_window(&self, settings: &Settings, bucket: &RawDocument) -> bool {
        let Some((windows, (operator, start))) = settings.windows.as_ref().zip(self.stays_in) else {
            return false;
        };
        !bucket
            .get_datetime(windows.field.as_str())
            .is_ok_and(|window| match operator {
                "$lte" => window <= start,
                "$gte" => window >= start,
                _ => window == start,
            })
    }

    pub(crate) fn hint(&self) -> Hint {
        Hint::Name(self.index.clone())
    }

    /// Returns the bucket that has the item, without its items, read from the primary.
    pub(crate) async fn find(&self, shared: &Shared, conn: &mut Conn<'_>) -> Result<Option<RawDocumentBuf>> {
        let (collection, settings) = shared.parts();
        let options = FindOneOptions::builder()
            .projection(without_items(settings))
            .hint(self.hint())
            .build();
        let found = conn.find_one(collection, self.filter(settings), options).await;
        found.map_err(|error| self.failed(shared, error))
    }

    /// Updates the item in its bucket.
    pub(crate) async fn update(
        &self,
        shared: &Shared,
        update: impl Into<UpdateModifications>,
        conn: &mut Conn<'_>,
    ) -> Result<Updated> {
        let (collection, settings) = shared.parts();
        let update = update.into();
        let figure_update = FigureUpdate::new(settings, &update)?;
        let mut attempts = settings.retry.start();
        loop {
            if let Some(update) = &figure_update {
                let projection = only_item(settings, &self.field, &self.id);
                let options = FindOneAndUpdateOptions::builder()
                    .projection(projection)
                    .hint(self.hint())
                    .build();
                let filter = self.filter_of_change(settings);
                let updated = update.update_item(collection, filter, options, conn);
                if let Some(updated) = updated.await.map_err(|error| self.failed(shared, error))? {
                    return Ok(updated);
                }
            } else {
                let filter = self.filter_of_change(settings);
                let options = UpdateOptions::builder().hint(self.hint()).build();
                let updated = conn.update_one(collection, filter, update.clone(), options);
                let updated = updated.await.map_err(|error| self.failed(shared, error))?;
                if updated.matched_count > 0 {
                    return Ok(Updated::new(updated.modified_count > 0));
                }
            }
            let Some(bucket) = self.find(shared, conn).await? else {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    "the key has no item with this id, nothing was changed: append it",
                ));
            };
            if self.leaves_window(settings, &bucket) {
                return Err(Error::new(
                    ErrorKind::InvalidTime,
                    "the new time of the item is not in the window of its bucket, nothing was changed: remove the item, and append it with the new time",
                ));
            }
            if conn.has_session() {
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
