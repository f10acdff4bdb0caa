//! A stored bucket, and how it is read.

use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::stored::path_of;
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, FieldName, Key, Result};
use mongodb::bson::{self, Bson, RawBsonRef, RawDocument};
use serde::de::DeserializeOwned;

use crate::form::id::Tail;
use crate::form::token::PageToken;
use crate::settings::Settings;

/// A stored document: one page of the history of a key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Bucket<K, T> {
    /// Its `_id`.
    pub id: String,
    /// The key.
    pub key: K,
    /// The items, in the order in which they were stored.
    pub items: Vec<T>,
    token: PageToken,
}

impl<K, T> Bucket<K, T> {
    /// Returns its position among the buckets of its key, for [`buckets`](crate::BucketRepository::buckets).
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::bson::Document;
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns::Result<()> {
    /// if let Some(page) = trades.page(&123, 3).await? {
    ///     let fourth = trades.buckets(&123).after(page.token().clone()).limit(1).page().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self) -> &PageToken {
        &self.token
    }
}

/// Decodes buckets of one key, and checks the invariants of the pattern.
pub(crate) struct Reader<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) key: &'a EncodedKey,
    pub(crate) selected: SelectedItems,
}

/// The items of a bucket that the server was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectedItems {
    /// All.
    All,
    /// The last ones, at most this many.
    Newest(usize),
    /// Those that match a filter.
    Filtered,
}

impl SelectedItems {
    /// Returns whether `items` items are consistent with the stored `count`.
    pub(crate) fn allows(self, items: usize, count: usize) -> bool {
        match self {
            Self::All => items == count,
            Self::Newest(most) => items == count.min(most),
            Self::Filtered => items <= count,
        }
    }
}

impl Reader<'_> {
    pub(crate) fn read<K: Key, T: DeserializeOwned>(&self, document: &RawDocument) -> Result<Bucket<K, T>> {
        let value = |field: &str| document.get(field).ok().flatten();
        let raw_id = value("_id");
        let corrupt_at = |field: &str, message: &'static str| corrupt(document, field, message);
        let id = raw_id
            .and_then(RawBsonRef::as_str)
            .ok_or_else(|| corrupt_at("_id", "the `_id` of a bucket is not a string: repair the bucket"))?;
        let Some(tail) = self.key.tail(id).filter(|tail| Tail::parse(tail).is_some()) else {
            return Err(corrupt_at(
                "_id",
                "the `_id` of a bucket is not its key, `_`, and a second: repair the bucket",
            ));
        };

        let field = self.settings.key.as_str();
        let key = value(field)
            .and_then(K::from_stored)
            .filter(|key| key.encode_key().is_ok_and(|stored| stored.text() == self.key.text()))
            .ok_or_else(|| {
                corrupt_at(
                    field,
                    "the key field of a bucket differs from its `_id`: repair the bucket",
                )
            })?;

        let field = self.settings.items.as_str();
        let array = value(field)
            .and_then(RawBsonRef::as_array)
            .ok_or_else(|| corrupt_at(field, ITEMS_NOT_ARRAY))?;
        let mut items = Vec::new();
        for (index, element) in array.into_iter().enumerate() {
            let element = element.map_err(|_| {
                corrupt_at(
                    field,
                    "the items of a bucket are not valid BSON: replace the document by hand",
                )
            })?;
            let item = decode_item(self.settings, id, Some(index), element)?;
            items.push(item);
        }
        check_count(self.settings, document, self.selected, items.len())?;
        Ok(Bucket {
            id: id.to_owned(),
            key,
            items,
            token: PageToken::from_tail(tail),
        })
    }
}

const ITEMS_NOT_ARRAY: &str = "the items of a bucket are not an array: repair the bucket";

/// Returns the number of items of a bucket, if the server sent only the number.
pub(crate) fn read_size(settings: &Settings, document: &RawDocument, selected: SelectedItems) -> Result<usize> {
    let field = settings.items.as_str();
    let size = stored_size(document, field).ok_or_else(|| corrupt(document, field, ITEMS_NOT_ARRAY))?;
    check_count(settings, document, selected, size)?;
    Ok(size)
}

fn check_count(settings: &Settings, document: &RawDocument, selected: SelectedItems, items: usize) -> Result<()> {
    let field = settings.count.as_str();
    if stored_size(document, field).is_some_and(|count| selected.allows(items, count)) {
        return Ok(());
    }
    let message = "the count of a bucket is not the number of its items: repair the bucket";
    Err(corrupt(document, field, message))
}

fn stored_size(document: &RawDocument, field: &str) -> Option<usize> {
    let value = document.get(field).ok().flatten().and_then(stored_integer);
    value.and_then(|value| usize::try_from(value).ok())
}

fn corrupt(document: &RawDocument, field: &str, message: &'static str) -> Error {
    Error::corrupt(id_of(document), field, message)
}

/// Returns the `_id` of a document; null where it has none.
pub(crate) fn id_of(document: &RawDocument) -> Bson {
    let id = document.get("_id").ok().flatten();
    id.and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null)
}

/// Decodes the one item of a bucket that was read without the others.
pub(crate) fn read_item<T: DeserializeOwned>(settings: &Settings, bucket: &RawDocument) -> Result<Option<T>> {
    let id = bucket.get_str("_id").unwrap_or_default();
    let items = bucket.get_array(settings.items.as_str()).ok();
    let item = items.and_then(|items| items.get(0).ok().flatten());
    item.map(|item| decode_item(settings, id, None, item)).transpose()
}

/// Decodes a bucket that has one item in place of the array.
pub(crate) fn read_unwound<K: Key, T: DeserializeOwned>(settings: &Settings, bucket: &RawDocument) -> Result<(K, T)> {
    let value = |field: &FieldName| bucket.get(field.as_str()).ok().flatten();
    let key = value(&settings.key).and_then(K::from_stored).ok_or_else(|| {
        let message = "the key field of a bucket is not a key of the repository's type: repair the bucket";
        corrupt(bucket, settings.key.as_str(), message)
    })?;
    let item = value(&settings.items).unwrap_or(RawBsonRef::Null);
    let item = decode(item).map_err(|error| {
        let path = path_of::<T>(item, &error);
        not_of_type(error, id_of(bucket)).in_path(settings.items.as_str(), &path)
    })?;
    Ok((key, item))
}

/// Decodes an item at an index of the array, if that is known.
fn decode_item<T: DeserializeOwned>(
    settings: &Settings,
    id: &str,
    index: Option<usize>,
    item: RawBsonRef<'_>,
) -> Result<T> {
    decode(item).map_err(|error| {
        let items = &settings.items;
        let at = index.map_or_else(|| items.to_string(), |index| format!("{items}.{index}"));
        let path = path_of::<T>(item, &error);
        not_of_type(error, Bson::String(id.to_owned())).in_path(&at, &path)
    })
}

fn not_of_type(error: bson::error::Error, document_id: Bson) -> Error {
    let message = "a stored item does not have the item type of the repository: change the type, or correct the item";
    Error::from_driver(ErrorKind::Decode, message, error).of_document(document_id, "")
}

fn decode<T: DeserializeOwned>(element: RawBsonRef<'_>) -> bson::error::Result<T> {
    match element {
        RawBsonRef::Document(document) => bson::deserialize_from_slice(document.as_bytes()),
        scalar => bson::deserialize_from_bson(scalar.try_into()?),
    }
}
