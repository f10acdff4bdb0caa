//! What finds, changes and removes one item by its id.

use std::fmt;

use mongo_patterns_core::error::is_bad_hint;
use mongo_patterns_core::index::index_missing;
use mongo_patterns_core::session::Session;
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, FieldName, Result, send};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::error::Error as DriverError;
use mongodb::options::{FindOneOptions, Hint, ReadConcern, ReadPreference, SelectionCriteria, UpdateOptions};

use crate::action::Updated;
use crate::form::item_id::ItemId;
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::key_write::Write;

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
    /// An error names the key.
    pub(crate) fn new(settings: &Settings, key: EncodedKey, id: Result<ItemId>) -> Result<Self> {
        let id = id.map_err(|error| error.with_key(key.text()))?;
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

    /// The bucket that has it, less its items, as the primary has it now.
    pub(crate) async fn find(
        &self,
        shared: &Shared,
        session: Option<&mut Session<'_>>,
    ) -> Result<Option<RawDocumentBuf>> {
        let Shared {
            collection, settings, ..
        } = shared;
        let mut options = FindOneOptions::builder()
            .projection(doc! { settings.count.as_str(): 1 })
            .hint(self.hint())
            .build();
        if session.is_none() {
            options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
            options.read_concern = Some(ReadConcern::local());
        }
        let found = send::find_one(session, collection, self.filter(settings), options).await;
        found.map_err(|error| self.failed(shared, error))
    }

    /// Changes it where it is.
    pub(crate) async fn change(
        &self,
        shared: &Shared,
        update: Document,
        mut session: Option<&mut Session<'_>>,
    ) -> Result<Updated> {
        let Shared {
            collection, settings, ..
        } = shared;
        let _locked = match session {
            None => Some(shared.locks.shared(self.key.text()).await),
            Some(_) => None,
        };
        let mut attempts = settings.retry.start();
        loop {
            let (filter, hint) = (
                self.filter(settings),
                UpdateOptions::builder().hint(self.hint()).build(),
            );
            let changed = send::update_one(session.as_deref_mut(), collection, filter, update.clone(), hint).await;
            let updated = changed.map_err(|error| self.failed(shared, error))?;
            if updated.matched_count > 0 {
                let modified = updated.modified_count > 0;
                return Ok(Updated { modified });
            }
            // A removal may have moved it up, to a bucket that the server had looked at before.
            if self.find(shared, session.as_deref_mut()).await?.is_none() {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    "the key has no item with this id, nothing was changed: append it",
                ));
            }
            if session.is_some() {
                return Err(Error::new(
                    ErrorKind::Contention,
                    "another writer moved the item at the same moment, nothing was changed: run the operation again",
                ));
            }
            attempts
                .next(DriverError::custom("the item was moved each time"))
                .await?;
        }
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
