//! What finds, changes and removes one item by its id.

use std::fmt;

use mongo_patterns_core::error::is_bad_hint;
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, FieldName, Result};
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::Hint;

use crate::item_id::ItemId;
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::Write;

/// An item that is called by its id.
pub(crate) struct OneItem {
    pub(crate) key: EncodedKey,
    pub(crate) id: ItemId,
    /// The field of an item that holds the id.
    pub(crate) field: FieldName,
    /// Where that is in a bucket.
    pub(crate) path: String,
    /// The index that leads to it.
    index: String,
}

impl OneItem {
    pub(crate) fn new(settings: &Settings, key: EncodedKey, id: ItemId) -> Result<Self> {
        let (Some(field), Some(path), Some(index)) =
            (&settings.item_id, settings.item_id_path(), settings.item_index())
        else {
            return Err(no_field());
        };
        Ok(Self {
            key,
            id,
            field: field.clone(),
            path,
            index,
        })
    }

    /// The bucket that has it.
    pub(crate) fn filter(&self, settings: &Settings) -> Document {
        doc! { settings.key.as_str(): self.key.value(), self.path.as_str(): self.id.to_bson() }
    }

    /// That bucket, if it is still this one, and has between so many items.
    pub(crate) fn filter_in(&self, settings: &Settings, bucket: &Bson, count: Document) -> Document {
        let mut filter = doc! { "_id": bucket };
        filter.extend(self.filter(settings));
        filter.insert(settings.count.as_str(), count);
        filter
    }

    pub(crate) fn hint(&self) -> Hint {
        Hint::Name(self.index.clone())
    }

    /// What an error means of a command with that hint.
    pub(crate) fn failed(&self, shared: &Shared, error: DriverError) -> Error {
        if is_bad_hint(&error) {
            return index_missing(&self.index).caused_by(error);
        }
        let write = Write { shared, key: &self.key };
        write.failed(error)
    }
}

/// Does not show the key and the id, which are user values.
impl fmt::Debug for OneItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneItem")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

pub(crate) fn no_field() -> Error {
    Error::new(
        ErrorKind::Configuration,
        "single items are found by their ids: call item_id_field(..) on the builder",
    )
}
