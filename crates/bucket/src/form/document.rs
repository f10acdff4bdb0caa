//! A bucket as it is read.

use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Key, Result};
use mongodb::bson::{self, Bson, RawBsonRef, RawDocument};
use serde::de::DeserializeOwned;

use crate::PageToken;
use crate::form::id::Tail;
use crate::settings::Settings;

/// One stored document: a page of the history of a key.
///
/// ```no_run
/// # use mongo_patterns_bucket::BucketRepository;
/// # use mongodb::bson::Document;
/// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
/// if let Some(page) = trades.page(&123, 1).await? {
///     println!("{}: {} trades of customer {}", page.id, page.items.len(), page.key);
/// }
/// # Ok(())
/// # }
/// ```
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
    /// Its place among the pages of its key, for [`pages`](crate::BucketRepository::pages).
    ///
    /// ```no_run
    /// # use mongo_patterns_bucket::BucketRepository;
    /// # use mongodb::bson::Document;
    /// # async fn f(trades: BucketRepository<u32, Document>) -> mongo_patterns_core::Result<()> {
    /// if let Some(page) = trades.page(&123, 3).await? {
    ///     let fourth = trades.pages(&123).after(page.token().clone()).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self) -> &PageToken {
        &self.token
    }
}

/// Reads buckets of one key and checks that they are sound.
pub(crate) struct Reader<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) key: &'a EncodedKey,
    pub(crate) part: Part,
}

/// Which of a bucket's items the server was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All.
    Whole,
    /// The last ones, so many at most.
    Newest(usize),
    /// Those that a filter lets through.
    Filtered,
}

impl Part {
    /// Whether so many items may come of a bucket with this count.
    pub(crate) fn allows(self, items: usize, count: usize) -> bool {
        match self {
            Self::Whole => items == count,
            Self::Newest(most) => items == count.min(most),
            Self::Filtered => items <= count,
        }
    }
}

impl Reader<'_> {
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) when the document breaks a rule of the pattern, or belongs to another key,
    /// [`Decode`](ErrorKind::Decode) when an item is not of the type.
    pub(crate) fn read<K: Key, T: DeserializeOwned>(&self, document: &RawDocument) -> Result<Bucket<K, T>> {
        let value = |field: &str| document.get(field).ok().flatten();
        let raw_id = value("_id");
        let at = |field: &str, message: &'static str| {
            let id = raw_id.and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null);
            Error::corrupt(id, field, message)
        };
        let id = raw_id
            .and_then(RawBsonRef::as_str)
            .ok_or_else(|| at("_id", "a bucket's `_id` is not a string: repair it"))?;
        let Some(tail) = self.key.tail(id).filter(|tail| Tail::parse(tail).is_some()) else {
            return Err(at(
                "_id",
                "a bucket's `_id` is not its key, `_`, and the second at which it was opened: repair it",
            ));
        };

        let field = self.settings.key.as_str();
        let key = value(field)
            .and_then(K::from_stored)
            .filter(|key| key.encode_key().is_ok_and(|stored| stored.text() == self.key.text()))
            .ok_or_else(|| at(field, "a bucket's key field disagrees with its `_id`: repair it"))?;

        let field = self.settings.items.as_str();
        let array = value(field)
            .and_then(RawBsonRef::as_array)
            .ok_or_else(|| at(field, "a bucket's items are not an array: repair it"))?;
        let mut items = Vec::new();
        for (index, element) in array.into_iter().enumerate() {
            let element = element.map_err(|_| at(field, "a bucket's items are not valid BSON"))?;
            let item = decode_item(self.settings, id, index, element)?;
            items.push(item);
        }

        let field = self.settings.count.as_str();
        let count = value(field)
            .and_then(stored_integer)
            .and_then(|count| usize::try_from(count).ok());
        if !count.is_some_and(|count| self.part.allows(items.len(), count)) {
            return Err(at(field, "a bucket's count is not the number of its items: repair it"));
        }
        Ok(Bucket {
            id: id.to_owned(),
            key,
            items,
            token: PageToken::from_tail(tail),
        })
    }
}

/// The one item of a bucket that was read without the others.
pub(crate) fn read_item<T: DeserializeOwned>(settings: &Settings, bucket: &RawDocument) -> Result<Option<T>> {
    let id = bucket.get_str("_id").unwrap_or_default();
    let items = bucket.get_array(settings.items.as_str()).ok();
    let item = items.and_then(|items| items.get(0).ok().flatten());
    item.map(|item| decode_item(settings, id, 0, item)).transpose()
}

fn decode_item<T: DeserializeOwned>(settings: &Settings, id: &str, index: usize, item: RawBsonRef<'_>) -> Result<T> {
    decode(item).map_err(|error| {
        Error::from_driver(
            ErrorKind::Decode,
            "a stored item cannot be read as the repository's item type: change the type, or mend the item",
            error.into(),
        )
        .at(Bson::String(id.to_owned()), format!("{}.{index}", settings.items))
    })
}

fn decode<T: DeserializeOwned>(element: RawBsonRef<'_>) -> bson::error::Result<T> {
    match element {
        RawBsonRef::Document(document) => bson::deserialize_from_slice(document.as_bytes()),
        scalar => bson::deserialize_from_bson(scalar.try_into()?),
    }
}
