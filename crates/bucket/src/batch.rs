//! The items of a batch, and the buckets they go into.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Result};
use mongodb::bson::raw::CString;
use mongodb::bson::spec::ElementType;
use mongodb::bson::{self, Bson, DateTime, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use serde::Serialize;

use crate::IdPolicy;
use crate::id::{self, Tail};
use crate::item_id::ItemId;
use crate::settings::Settings;
use crate::write::second_of;

/// MongoDB's limit of a document, less what a bucket has beside its items.
const MAX_BYTES: usize = 16 * 1024 * 1024 - 8 * 1024;

/// How many items are encoded together: in fewer pieces of memory, and below the 2 GiB of a buffer also at 16 MiB each.
pub(crate) const TOGETHER: usize = 100;
/// What an element of an array has beside its value: its type, and its index up to the millionth, with its end.
const MAX_ELEMENT_HEAD: usize = 9;
const NOT_ENCODED: &str = "an item cannot be written as BSON, nothing was stored: change its type";

/// An item, encoded once: it is copied into its bucket as it is.
pub(crate) struct Item {
    value: Value,
    second: i64,
    pub(crate) id: Option<ItemId>,
}

enum Value {
    /// A document, and where it is in what was encoded together.
    Document {
        encoded: Arc<RawDocumentBuf>,
        at: Range<usize>,
    },
    /// Any other value: the one field of a document of its own.
    Other(Arc<RawDocumentBuf>),
}

#[derive(Serialize)]
struct Wrapped<'a, T: ?Sized> {
    i: &'a T,
}

fn encode<T: Serialize + ?Sized>(items: &T) -> Result<Arc<RawDocumentBuf>> {
    let encoded = bson::serialize_to_raw_document_buf(&Wrapped { i: items });
    let encoded = encoded.map_err(|error| Error::from_driver(ErrorKind::Encode, NOT_ENCODED, error.into()))?;
    Ok(Arc::new(encoded))
}

impl Item {
    pub(crate) fn encode<T: Serialize>(settings: &Settings, item: &T, time: Option<DateTime>) -> Result<Self> {
        let encoded = encode(item)?;
        match encoded.get("i") {
            Ok(Some(value)) => Self::new(settings, &encoded, value, time),
            _ => Err(Error::new(ErrorKind::Encode, NOT_ENCODED)),
        }
    }

    pub(crate) fn encode_all<T: Serialize>(
        settings: &Settings,
        items: &[T],
        time: Option<DateTime>,
    ) -> Result<Vec<Self>> {
        let mut all = Vec::with_capacity(items.len());
        for together in items.chunks(TOGETHER) {
            let encoded = encode(together)?;
            let values = encoded.get_array("i").into_iter().flatten().flatten();
            let before = all.len();
            for (item, value) in together.iter().zip(values) {
                all.push(match value {
                    RawBsonRef::Document(_) => Self::new(settings, &encoded, value, time)?,
                    _ => Self::encode(settings, item, time)?,
                });
            }
            if all.len() - before != together.len() {
                return Err(Error::new(ErrorKind::Encode, NOT_ENCODED));
            }
        }
        Ok(all)
    }

    fn new(
        settings: &Settings,
        encoded: &Arc<RawDocumentBuf>,
        value: RawBsonRef<'_>,
        time: Option<DateTime>,
    ) -> Result<Self> {
        let fields = value.as_document();
        let second = second_of(settings, time, |field| fields?.get_datetime(field).ok())?;
        let id = ItemId::of_item(settings, |field| fields?.get(field).ok()??.try_into().ok())?;
        let value = match value {
            RawBsonRef::Document(document) => {
                let start = document.as_bytes().as_ptr().addr() - encoded.as_bytes().as_ptr().addr();
                Value::Document {
                    encoded: Arc::clone(encoded),
                    at: start..start + document.as_bytes().len(),
                }
            }
            _ => Value::Other(Arc::clone(encoded)),
        };
        Ok(Self { value, second, id })
    }

    fn value(&self) -> RawBsonRef<'_> {
        match &self.value {
            Value::Document { encoded, at } => {
                let document = RawDocument::from_bytes(&encoded.as_bytes()[at.clone()]);
                RawBsonRef::Document(document.expect("it was a document when it was encoded"))
            }
            Value::Other(encoded) => {
                let value = encoded.get("i").ok().flatten();
                value.expect("it was there when the item was encoded")
            }
        }
    }

    /// The type of its value, and its bytes.
    fn element(&self) -> (u8, &[u8]) {
        match &self.value {
            Value::Document { encoded, at } => (ElementType::EmbeddedDocument as u8, &encoded.as_bytes()[at.clone()]),
            Value::Other(encoded) => {
                // The document's length, the type, `i`, NUL, the value, and the end.
                let bytes = encoded.as_bytes();
                (bytes[4], &bytes[7..bytes.len() - 1])
            }
        }
    }

    /// Its second, as the `_id` of a bucket holds it.
    pub(crate) fn second(&self) -> String {
        id::digits(self.second)
    }

    /// What its value takes as BSON, or somewhat more.
    fn encoded_bytes(&self) -> usize {
        match &self.value {
            Value::Document { at, .. } => at.len(),
            Value::Other(encoded) => encoded.as_bytes().len(),
        }
    }

    /// What it takes in memory, nearly.
    pub(crate) fn bytes(&self) -> usize {
        self.encoded_bytes() + size_of::<Self>()
    }

    pub(crate) fn to_bson(&self) -> mongodb::error::Result<Bson> {
        Ok(self.value().try_into()?)
    }
}

/// Refuses items of which a page could not be one document.
pub(crate) fn check_sizes(settings: &Settings, items: &[Item]) -> Result<()> {
    let page_size = settings.page_size as usize;
    let bytes = |item: &Item| item.encoded_bytes() + MAX_ELEMENT_HEAD;
    let mut page = 0_usize;
    for (index, item) in items.iter().enumerate() {
        page += bytes(item);
        if let Some(left) = index.checked_sub(page_size) {
            page -= bytes(&items[left]);
        }
        if page > MAX_BYTES {
            return Err(Error::new(
                ErrorKind::TooLarge,
                "a page of the items would pass MongoDB's limit of 16 MiB, nothing was stored: store smaller items, or use a smaller page size",
            ));
        }
    }
    Ok(())
}

/// A bucket with these items, in the manual's order of fields.
pub(crate) fn bucket(
    settings: &Settings,
    key: &EncodedKey,
    tail: &str,
    items: &[&Item],
) -> mongodb::error::Result<RawDocumentBuf> {
    let name = |name: &str| CString::try_from(name);
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("_id"), key.id(tail));
    document.append(name(settings.key.as_str())?, RawBson::try_from(key.value().clone())?);
    document.append(
        name(settings.count.as_str())?,
        i32::try_from(items.len()).unwrap_or(i32::MAX),
    );
    // Their bytes are copied as they are, once: to push them to an array, and that to the document, would copy them twice.
    let mut bytes = document.into_bytes();
    bytes.reserve(items.iter().map(|item| item.encoded_bytes() + MAX_ELEMENT_HEAD).sum());
    bytes.pop(); // the end of the document
    bytes.push(ElementType::Array as u8);
    bytes.extend_from_slice(settings.items.as_str().as_bytes());
    bytes.push(0);
    let array = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    for (index, item) in items.iter().enumerate() {
        let (element_type, value) = item.element();
        bytes.push(element_type);
        bytes.extend_from_slice(index.to_string().as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(value);
    }
    for start in [array, 0] {
        bytes.push(0);
        let length = i32::try_from(bytes.len() - start).unwrap_or(i32::MAX);
        bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
    Ok(RawDocumentBuf::from_bytes(bytes)?)
}

/// Names the new buckets of a batch, each after those that are known.
#[derive(Default)]
pub(crate) struct Tails {
    /// The first free suffix of a second, where it is not 0.
    free: HashMap<String, u32>,
    /// The newest tail of the key, where the policy follows it.
    newest: Option<String>,
}

impl Tails {
    /// Notes a tail that is taken.
    pub(crate) fn taken(&mut self, tail: &str) {
        if let Some(Tail { second, suffix }) = Tail::parse(tail) {
            self.free_from(second, suffix + 1);
        }
        if self.newest.as_deref().is_none_or(|newest| newest < tail) {
            self.newest = Some(tail.to_owned());
        }
    }

    /// Notes that the suffixes before this one are taken.
    pub(crate) fn free_from(&mut self, second: &str, suffix: u32) {
        let free = self.free.entry(second.to_owned()).or_default();
        *free = suffix.max(*free);
    }

    /// The tail of a new bucket whose first item is of this second.
    pub(crate) fn next(&mut self, policy: IdPolicy, second: &str) -> Result<String> {
        let tail = match (policy, self.newest.as_deref().and_then(Tail::parse)) {
            (IdPolicy::Monotonic, Some(newest)) if self.newest.as_deref() >= Some(second) => newest.successor()?,
            (IdPolicy::Monotonic, _) => second.to_owned(),
            (IdPolicy::ItemTime, _) => id::with_suffix(second, self.free.get(second).copied().unwrap_or(0))?,
        };
        self.taken(&tail);
        Ok(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_all(tails: &mut Tails, policy: IdPolicy, seconds: &[&str]) -> Vec<String> {
        seconds
            .iter()
            .map(|second| tails.next(policy, second).unwrap())
            .collect()
    }

    #[test]
    fn a_bucket_is_what_the_driver_would_make_of_it() {
        let settings = Settings {
            time: None,
            ..Settings::example()
        };
        let key = mongo_patterns_core::EncodeKey::encode_key(&123).unwrap();
        let values = [
            bson::bson!({ "ticker": "MDB", "qty": 419, "in": { "a.b": [1, 2] } }),
            bson::bson!("text"),
            bson::bson!(null),
            bson::bson!([1, "two", { "three": 3 }]),
            bson::bson!(2.5),
            Bson::DateTime(DateTime::from_millis(5)),
            bson::bson!({}),
        ];
        let items = Item::encode_all(&settings, &values, None).unwrap();
        let bucket = bucket(&settings, &key, "1698335223", &items.iter().collect::<Vec<_>>()).unwrap();
        let expected = bson::doc! { "_id": "123_1698335223", "customerId": 123, "count": 7, "history": &values[..] };
        assert_eq!(bucket, RawDocumentBuf::try_from(&expected).unwrap());
        for (item, value) in items.iter().zip(&values) {
            assert_eq!(item.to_bson().unwrap(), *value);
        }
    }

    #[test]
    fn tails_by_item_time_are_free_within_their_second() {
        let mut tails = Tails::default();
        tails.taken("1698335223_000004");
        let seconds = ["1698335223", "1698335224", "1698335223", "1698335000"];
        assert_eq!(
            next_all(&mut tails, IdPolicy::ItemTime, &seconds),
            ["1698335223_000005", "1698335224", "1698335223_000006", "1698335000"]
        );
    }

    #[test]
    fn monotonic_tails_only_rise() {
        let mut tails = Tails::default();
        tails.taken("1698335223");
        let seconds = ["1698335000", "1698335223", "1698335224", "1698335224"];
        assert_eq!(
            next_all(&mut tails, IdPolicy::Monotonic, &seconds),
            [
                "1698335223_000001",
                "1698335223_000002",
                "1698335224",
                "1698335224_000001"
            ]
        );
    }
}
