//! The items of a batch, and the buckets they go into.

use std::collections::HashMap;

use mongo_patterns_core::array::{self, Encoded};
use mongo_patterns_core::{EncodedKey, Result};
use mongodb::bson::raw::CString;
use mongodb::bson::{Bson, DateTime, RawBson, RawDocumentBuf, cstr};
use serde::Serialize;

use crate::IdPolicy;
use crate::form::id::{self, Tail};
use crate::form::item_id::ItemId;
use crate::settings::Settings;
use crate::write::key_write::second_of;

/// An item, encoded once: it is copied into its bucket as it is.
pub(crate) struct Item {
    value: Encoded,
    second: i64,
    pub(crate) id: Option<ItemId>,
}

impl Item {
    pub(crate) fn encode<T: Serialize>(settings: &Settings, item: &T, time: Option<DateTime>) -> Result<Self> {
        Self::new(settings, Encoded::one(item)?, time)
    }

    pub(crate) fn encode_all<'a, T: Serialize + 'a>(
        settings: &Settings,
        items: impl ExactSizeIterator<Item = &'a T> + Clone,
        time: Option<DateTime>,
    ) -> Result<Vec<Self>> {
        let mut all = Vec::with_capacity(items.len());
        for value in Encoded::all(items)? {
            all.push(Self::new(settings, value, time)?);
        }
        Ok(all)
    }

    pub(crate) fn new(settings: &Settings, value: Encoded, time: Option<DateTime>) -> Result<Self> {
        let second = second_of(settings, time, |field| value.date(field))?;
        let id = ItemId::of_item(settings, |field| {
            value.value().as_document()?.get(field).ok()??.try_into().ok()
        })?;
        Ok(Self { value, second, id })
    }

    /// Its second, as the `_id` of a bucket holds it.
    pub(crate) fn second(&self) -> String {
        id::digits(self.second)
    }

    /// What it takes in memory, nearly.
    pub(crate) fn bytes(&self) -> usize {
        self.value.bytes() + size_of::<Self>()
    }

    pub(crate) fn to_bson(&self) -> mongodb::error::Result<Bson> {
        self.value.to_bson()
    }
}

/// Refuses items of which a page could not be one document.
pub(crate) fn check_sizes(settings: &Settings, items: &[Item]) -> Result<()> {
    array::check_sizes(settings.page_size as usize, items.iter().map(|item| &item.value))
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
    array::append_array(document, settings.items.as_str(), items.iter().map(|item| &item.value))
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
        match &mut self.newest {
            Some(newest) if newest.as_str() >= tail => {}
            Some(newest) => tail.clone_into(newest),
            newest => *newest = Some(tail.to_owned()),
        }
    }

    /// Notes that the suffixes before this one are taken.
    pub(crate) fn free_from(&mut self, second: &str, suffix: u32) {
        if suffix > 0 {
            let free = self.free.entry(second.to_owned()).or_default();
            *free = suffix.max(*free);
        }
    }

    /// The tail of a new bucket whose first item is of this second.
    pub(crate) fn next(&mut self, policy: IdPolicy, second: &str) -> Result<String> {
        if policy == IdPolicy::ItemTime {
            let free = self.free.entry(second.to_owned()).or_default();
            let suffix = *free;
            *free += 1;
            return id::with_suffix(second, suffix);
        }
        let tail = match self.newest.as_deref().and_then(Tail::parse) {
            Some(newest) if self.newest.as_deref() >= Some(second) => newest.successor()?,
            _ => second.to_owned(),
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
            mongodb::bson::bson!({ "ticker": "MDB", "qty": 419, "in": { "a.b": [1, 2] } }),
            mongodb::bson::bson!("text"),
            mongodb::bson::bson!(null),
            mongodb::bson::bson!([1, "two", { "three": 3 }]),
            mongodb::bson::bson!(2.5),
            Bson::DateTime(DateTime::from_millis(5)),
            mongodb::bson::bson!({}),
        ];
        let items = Item::encode_all(&settings, values.iter(), None).unwrap();
        let bucket = bucket(&settings, &key, "1698335223", &items.iter().collect::<Vec<_>>()).unwrap();
        let expected =
            mongodb::bson::doc! { "_id": "123_1698335223", "customerId": 123, "count": 7, "history": &values[..] };
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
