//! The items of a batch, and the buckets they go into.

use std::collections::HashMap;

use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Result};
use mongodb::bson::raw::{CString, RawArrayBuf};
use mongodb::bson::{self, Bson, DateTime, RawBson, RawBsonRef, RawDocumentBuf, cstr};
use serde::Serialize;

use crate::IdPolicy;
use crate::id::{self, Tail};
use crate::item_id::ItemId;
use crate::settings::Settings;
use crate::write::second_of;

/// MongoDB's limit of a document, less what a bucket has beside its items.
const MAX_BYTES: usize = 16 * 1024 * 1024 - 8 * 1024;

/// An item, encoded once: it is copied into its bucket as it is.
pub(crate) struct Item {
    /// A document whose one field is the item, which may be of any BSON type.
    wrapped: RawDocumentBuf,
    second: i64,
    pub(crate) id: Option<ItemId>,
}

#[derive(Serialize)]
struct Wrapped<'a, T> {
    i: &'a T,
}

impl Item {
    pub(crate) fn encode<T: Serialize>(settings: &Settings, item: &T, time: Option<DateTime>) -> Result<Self> {
        let message = "an item cannot be written as BSON, nothing was stored: change its type";
        let wrapped = bson::serialize_to_raw_document_buf(&Wrapped { i: item })
            .map_err(|error| Error::from_driver(ErrorKind::Encode, message, error.into()))?;
        if !matches!(wrapped.get("i"), Ok(Some(_))) {
            return Err(Error::new(ErrorKind::Encode, message));
        }
        let fields = wrapped.get_document("i").ok();
        let second = second_of(settings, time, |field| fields?.get_datetime(field).ok())?;
        let id = ItemId::of_item(settings, |field| fields?.get(field).ok()??.try_into().ok())?;
        Ok(Self { wrapped, second, id })
    }

    fn value(&self) -> RawBsonRef<'_> {
        let value = self.wrapped.get("i").ok().flatten();
        value.expect("it was there when the item was encoded")
    }

    /// Its second, as the `_id` of a bucket holds it.
    pub(crate) fn second(&self) -> String {
        id::digits(self.second)
    }

    /// What it takes in memory, nearly.
    pub(crate) fn bytes(&self) -> usize {
        self.wrapped.as_bytes().len() + size_of::<Self>()
    }

    pub(crate) fn to_bson(&self) -> mongodb::error::Result<Bson> {
        Ok(self.value().try_into()?)
    }
}

/// Refuses items of which a page could not be one document.
pub(crate) fn check_sizes(settings: &Settings, items: &[Item]) -> Result<()> {
    let page_size = settings.page_size as usize;
    // The wrapping takes as much as the index of an array's element, or more, up to the millionth.
    let bytes = |item: &Item| item.wrapped.as_bytes().len() + 1;
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
    let mut array = RawArrayBuf::new();
    for item in items {
        array.push(item.value());
    }
    let mut document = RawDocumentBuf::new();
    document.append(cstr!("_id"), key.id(tail));
    document.append(name(settings.key.as_str())?, RawBson::try_from(key.value().clone())?);
    document.append(
        name(settings.count.as_str())?,
        i32::try_from(items.len()).unwrap_or(i32::MAX),
    );
    document.append(name(settings.items.as_str())?, array);
    Ok(document)
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
