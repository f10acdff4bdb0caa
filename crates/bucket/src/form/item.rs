//! An encoded item, and the bucket that it is stored in.

use mongo_patterns_core::array::{self, Encoded};
use mongo_patterns_core::{EncodedKey, Error, ErrorKind, Result};
use mongodb::bson::raw::CString;
use mongodb::bson::{Bson, DateTime, RawBson, RawDocumentBuf, cstr};
use serde::Serialize;

use crate::form::id;
use crate::form::item_id::ItemId;
use crate::form::window::start;
use crate::settings::Settings;

/// An item, encoded once: its bytes are copied into its bucket.
pub(crate) struct Item {
    value: Encoded,
    second: i64,
    /// The window of its time, if there are windows.
    pub(crate) window: Option<i64>,
    pub(crate) id: Option<ItemId>,
}

impl Item {
    pub(crate) fn encode<T: Serialize>(settings: &Settings, item: &T) -> Result<Self> {
        Self::new(settings, Encoded::one(item)?, None)
    }

    pub(crate) fn encode_all<'a, T: Serialize + 'a>(
        settings: &Settings,
        items: impl ExactSizeIterator<Item = &'a T> + Clone,
    ) -> Result<Vec<Self>> {
        Self::all(settings, Encoded::all(items)?, None)
    }

    pub(crate) fn all(settings: &Settings, values: Vec<Encoded>, time: Option<DateTime>) -> Result<Vec<Self>> {
        let values = values.into_iter();
        values.map(|value| Self::new(settings, value, time)).collect()
    }

    pub(crate) fn new(settings: &Settings, value: Encoded, time: Option<DateTime>) -> Result<Self> {
        let second = second_of(settings, time, |field| value.date(field))?;
        let window = window_of(settings, second, |field| value.date(field))?;
        if let Some(figures) = &settings.figures {
            figures.check(settings.page_size, value.value())?;
        }
        let id = ItemId::of_item(settings, |field| {
            value.value().as_document()?.get(field).ok()??.try_into().ok()
        })?;
        Ok(Self {
            value,
            second,
            window,
            id,
        })
    }

    /// Returns its second, as the `_id` of a bucket has it.
    pub(crate) fn second(&self) -> String {
        id::digits(self.second)
    }

    /// Returns about how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.value.bytes() + size_of::<Self>()
    }

    pub(crate) fn to_bson(&self) -> mongodb::error::Result<Bson> {
        self.value.to_bson()
    }
}

/// Returns the Unix second that names a new bucket: the caller's time, else the item's time field, else now.
fn second_of(
    settings: &Settings,
    time_of_call: Option<DateTime>,
    in_item: impl FnOnce(&str) -> Option<DateTime>,
) -> Result<i64> {
    let time = match (time_of_call, &settings.time) {
        (Some(time), _) => time,
        (None, None) => DateTime::now(),
        (None, Some(field)) => in_item(field.as_str()).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidTime,
                format!("the item has no BSON date in its time field `{field}`, it was not stored: set the field to a date, such as bson::DateTime"),
            )
        })?,
    };
    id::second(time)
}

/// Returns the window of an item, by its time field, if there are windows.
fn window_of(settings: &Settings, second: i64, in_item: impl FnOnce(&str) -> Option<DateTime>) -> Result<Option<i64>> {
    let Some(windows) = &settings.windows else {
        return Ok(None);
    };
    let window = windows.of_second(second_of(settings, None, in_item)?);
    if windows.of_second(second) == window {
        return Ok(Some(window));
    }
    Err(Error::new(
        ErrorKind::InvalidTime,
        "the given time is in another window than that of the item, it was not stored: give a time of its window, or none",
    ))
}

/// Refuses items if a page of them would exceed the limit of a document.
pub(crate) fn check_sizes(settings: &Settings, items: &[Item]) -> Result<()> {
    array::check_sizes(settings.page_size as usize, items.iter().map(|item| &item.value))
}

/// Returns a bucket with these items, with its fields in the manual's order.
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
    let window = items.first().and_then(|first| first.window);
    if let Some((windows, window)) = settings.windows.as_ref().zip(window) {
        document.append(name(windows.field.as_str())?, start(window));
    }
    document.append(
        name(settings.count.as_str())?,
        i32::try_from(items.len()).unwrap_or(i32::MAX),
    );
    if let Some(figures) = &settings.figures {
        let computed = figures.compute(&items.iter().map(|item| item.value.value()));
        document.append(
            name(figures.field.as_str())?,
            RawBson::try_from(Bson::Document(computed))?,
        );
    }
    array::append_array(document, settings.items.as_str(), items.iter().map(|item| &item.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_encoded_as_the_driver_encodes_it() {
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
        let items = Item::encode_all(&settings, values.iter()).unwrap();
        let bucket = bucket(&settings, &key, "1698335223", &items.iter().collect::<Vec<_>>()).unwrap();
        let expected =
            mongodb::bson::doc! { "_id": "123_1698335223", "customerId": 123, "count": 7, "history": &values[..] };
        assert_eq!(bucket, RawDocumentBuf::try_from(&expected).unwrap());
        for (item, value) in items.iter().zip(&values) {
            assert_eq!(item.to_bson().unwrap(), *value);
        }
    }
}
