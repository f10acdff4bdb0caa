//! Recognizes buckets in a sample, whichever program wrote them, and items that could be in buckets. Pure.
//!
//! # Design
//!
//! ## What makes documents buckets?
//!
//! A field is the length of their array. That alone is so for posts with a number of comments too. So one of these is
//! needed: the index of open buckets; a time in each `_id`; or the names of the manual.

use std::collections::BTreeSet;

use mongodb::bson::{Bson, Document};

use super::sample::{Sample, Seen, integer, is_called_id, is_date, length};
use crate::settings::BucketSettings;

/// The names of the manual and its articles.
const ARRAYS: [&str; 2] = ["history", "measurements"];
const COUNTS: [&str; 2] = ["count", "transaction_count"];

/// The index of open buckets: the key field, the count field, the page size and the windows.
struct OpenIndex {
    key: String,
    count: String,
    page_size: Option<u32>,
    /// The field and the seconds of the windows, if there are any.
    window: Option<(String, u32)>,
}

impl OpenIndex {
    fn of(index: &Document) -> Option<Self> {
        let mut fields = index.get_document("key").ok()?.keys();
        let (key, window) = (fields.next()?, fields.next());
        let (count, below) = index.get_document("partialFilterExpression").ok()?.iter().next()?;
        let page_size = below.as_document()?.get("$lt")?;
        // The name ends with the field and the seconds, such as `_window_3600s`.
        let name = index.get_str("name").unwrap_or_default();
        let window = window.and_then(|field| {
            let (_, seconds) = name.strip_suffix('s')?.rsplit_once(&format!("_{field}_"))?;
            Some((field.clone(), seconds.parse().ok()?))
        });
        Some(Self {
            key: key.clone(),
            count: count.clone(),
            page_size: integer(page_size).and_then(|size| size.try_into().ok()),
            window,
        })
    }
}

/// Adds the settings of documents with an array, if they are buckets.
pub(super) fn recognize(sample: &Sample, array: &str, seen: &mut Seen) -> bool {
    let mut open = sample.indexes.iter().filter_map(OpenIndex::of);
    let open = open.find(|open| sample.is_count(array, &open.count));
    let count = open.as_ref().map(|open| open.count.as_str());
    let Some(count) = count.or_else(|| count_field(sample, array)) else {
        return false;
    };
    let why = if open.is_some() {
        "there is an index of open buckets"
    } else if sample.has("_id", |id| parts(id).any(|part| part.len() == 10 || part.len() == 13)) {
        "`_id` contains a time"
    } else if ARRAYS.contains(&array) && COUNTS.contains(&count) {
        "these are names of the manual"
    } else {
        seen.note(format!(
            "`{count}` is the length of `{array}`: these could be buckets, but no index and no time in `_id` shows it"
        ));
        return false;
    };
    let key = match &open {
        Some(open) => Some(open.key.as_str()),
        None => key(sample, &[array, count]),
    };
    let longest = sample.longest(array);
    seen.note(format!(
        "`{count}` is the length of `{array}`, and {why}: these are buckets"
    ));
    seen.note(match &open {
        Some(_) => "key, count, page size and windows are those of the index of open buckets".to_owned(),
        None => format!("the fullest has {longest} items: check that this is the page size"),
    });
    if key.is_none() {
        seen.note("no field is a candidate for the key: set it".to_owned());
    }
    if !sample.has("_id", |id| parts(id).any(|part| part.len() == 10)) {
        seen.note("`_id` is not a key and a second: `bucket repair` writes such `_id`s".to_owned());
    }
    let page_size = match &open {
        Some(open) => open.page_size,
        None => u32::try_from(longest).ok(),
    };
    let (window_field, window_seconds) = open.as_ref().and_then(|open| open.window.clone()).unzip();
    seen.profile.bucket.push(BucketSettings {
        collection: Some(sample.collection.clone()),
        item_id: key.and_then(|key| item_id(sample, key, array)),
        key: key.map(str::to_owned),
        items: Some(array.to_owned()),
        time: time_field(sample, array).map(str::to_owned),
        count: Some(count.to_owned()).filter(|count| count != "count"),
        window_seconds,
        window_field: window_field.filter(|field| field != "window"),
        page_size,
        ..BucketSettings::default()
    });
    true
}

/// Adds settings for documents without arrays, if a field groups them, and a second field is their time.
pub(super) fn of_items(sample: &Sample, seen: &mut Seen) {
    let names = sample.names();
    let time = names.iter().find(|name| sample.has(name, is_date));
    let (Some(key), Some(time)) = (sample.key_fields(&[]).first().copied(), time) else {
        seen.note(
            "documents without arrays, of which no field groups several, or no field is a date in all".to_owned(),
        );
        return;
    };
    for line in [
        "one document per item, without arrays: these could be the source of `bucket migrate`",
        &format!("`{key}` could be the key, which groups the items, and `{time}` the time of an item"),
        "`bucket analyze` recommends a pattern and a size",
    ] {
        seen.note(line.to_owned());
    }
    seen.profile.bucket.push(BucketSettings {
        collection: Some(format!("{}_buckets", sample.collection)),
        flat: Some(sample.collection.clone()),
        key: Some(key.to_owned()),
        items: Some("items".to_owned()),
        time: Some((*time).to_owned()),
        page_size: Some(10),
        ..BucketSettings::default()
    });
}

/// Returns the field that is the length of the array, preferably of a name of the manual. One of another name must have
/// different values, because a constant can be equal by chance.
fn count_field<'s>(sample: &'s Sample, array: &str) -> Option<&'s str> {
    let lengths = sample.documents.iter().map(|document| length(document, array));
    let is_constant = lengths.collect::<BTreeSet<usize>>().len() < 2;
    let mut counts = sample
        .names()
        .into_iter()
        .filter(|name| sample.is_count(array, name))
        .collect::<Vec<_>>();
    counts.sort_by_key(|name| !COUNTS.contains(name));
    counts.into_iter().find(|name| !is_constant || COUNTS.contains(name))
}

/// Returns the field whose value is in each `_id`, or that groups the documents, or the only one that is named like an id.
fn key<'s>(sample: &'s Sample, but: &[&str]) -> Option<&'s str> {
    let is_in_id = |name: &str, document: &Document| {
        let (Some(Bson::String(id)), Some(value)) = (document.get("_id"), document.get(name)) else {
            return false;
        };
        let value = match value {
            Bson::String(text) => text.clone(),
            Bson::ObjectId(id) => id.to_hex(),
            value => value.to_string(),
        };
        let rest = id.strip_prefix(value.as_str());
        rest.is_some_and(|rest| rest.starts_with(|next: char| !next.is_alphanumeric()))
    };
    let candidates = sample.candidates(but);
    let mut ids = candidates.iter().filter(|name| is_called_id(name));
    let only_id = ids.next().filter(|_| ids.next().is_none());
    let is_in_ids = |name: &&&str| sample.documents.iter().all(|document| is_in_id(name, document));
    let in_ids = candidates
        .iter()
        .filter(is_in_ids)
        .min_by_key(|name| !is_called_id(name));
    in_ids
        .copied()
        .or_else(|| sample.key_fields(but).first().copied())
        .or(only_id.copied())
}

/// Returns the field of the items in a unique index after the key.
fn item_id(sample: &Sample, key: &str, array: &str) -> Option<String> {
    let mut indexes = sample.indexes();
    indexes.find_map(|(keys, is_unique)| match keys[..] {
        [of, path] if is_unique && of == key => Some(path.strip_prefix(array)?.strip_prefix('.')?.to_owned()),
        _ => None,
    })
}

/// Returns the numbers of a text after its first part.
fn parts(id: &Bson) -> impl Iterator<Item = &str> {
    let parts = id
        .as_str()
        .unwrap_or_default()
        .split(|part: char| !part.is_alphanumeric())
        .skip(1);
    parts.filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the field of the items that is a date in all of them.
fn time_field<'s>(sample: &'s Sample, array: &str) -> Option<&'s str> {
    let has_date = |item: &Bson, name: &str| {
        let item = item.as_document();
        item.is_some_and(|item| item.get(name).is_some_and(is_date))
    };
    let names = sample.elements(array).next()?.as_document()?.keys();
    names
        .map(String::as_str)
        .find(|name| sample.elements(array).all(|item| has_date(item, name)))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::oid::ObjectId;
    use mongodb::bson::{DateTime, doc};

    use super::*;
    use crate::init::sample;

    fn seen(documents: &[Document], indexes: &[Document]) -> Option<BucketSettings> {
        let sample = sample::sample("trades", documents.iter().cloned(), indexes);
        let mut seen = Seen::default();
        recognize(&sample, sample.array().unwrap(), &mut seen);
        seen.profile.bucket.pop()
    }

    fn is(settings: Option<BucketSettings>, key: &str, array: &str, count: Option<&str>) {
        let settings = settings.unwrap();
        let names = [&settings.key, &settings.items, &settings.count].map(Option::as_deref);
        assert_eq!(names, [Some(key), Some(array), count]);
    }

    fn items(number: i32) -> Vec<Document> {
        let item = |n: i32| doc! { "timestamp": DateTime::from_millis(i64::from(n) * 1000), "temperature": n };
        (0..number).map(item).collect()
    }

    #[test]
    fn buckets_of_the_manual_are_recognized() {
        let bucket = doc! { "_id": "7_1698335223", "customerId": 7, "count": 1, "history": items(1) };
        let found = seen(&[bucket], &[]).unwrap();
        assert_eq!((found.time.as_deref(), found.page_size), (Some("timestamp"), Some(1)));
        is(Some(found), "customerId", "history", None);
    }

    /// One bucket, several of one key, and one of each key.
    #[test]
    fn buckets_of_other_programs_are_recognized_whatever_their_ids() {
        for (number, keys) in [(1, 1), (20, 1), (20, 6), (20, 20)] {
            let ids: [&dyn Fn(i32) -> Bson; 3] = [
                &|_| ObjectId::new().into(),
                &|n| format!("{}_169833522300{}", n % keys, n % 10).into(),
                &|n| doc! { "sensor_id": n % keys, "page": n }.into(),
            ];
            for id in ids {
                let bucket = |n: i32| {
                    doc! {
                        "_id": id(n), "sensor_id": n % keys, "start_date": DateTime::from_millis(i64::from(n)),
                        "measurements": items(1 + n % 3), "transaction_count": 1 + n % 3, "sum_temperature": n,
                    }
                };
                let buckets: Vec<Document> = (0..number).map(bucket).collect();
                is(
                    seen(&buckets, &[]),
                    "sensor_id",
                    "measurements",
                    Some("transaction_count"),
                );
            }
        }
    }

    #[test]
    fn lists_with_a_length_are_no_buckets() {
        let post = |n: i32| {
            doc! { "_id": ObjectId::new(), "author_id": n % 6, "comments": items(n % 3), "comment_count": n % 3 }
        };
        let posts: Vec<Document> = (0..20).map(post).collect();
        assert!(seen(&posts, &[]).is_none());
        let differ = |n: i32| doc! { "_id": "7_1698335223", "sensor_id": 1, "count": n, "measurements": items(2) };
        assert!(seen(&[differ(2), differ(3)], &[]).is_none());
    }

    #[test]
    fn indexes_name_key_count_page_size_windows_and_the_id_of_an_item() {
        let hour = DateTime::from_millis(1_698_332_400_000);
        let bucket = doc! { "_id": 5, "sensorId": 7, "shopId": 1, "window": hour, "n": 1, "readings": [{ "date": hour, "id": 1 }] };
        let other =
            doc! { "key": { "stock": 1 }, "name": "stock", "partialFilterExpression": { "stock": { "$lt": 5 } } };
        let ids = doc! { "key": { "sensorId": 1, "readings.id": 1 }, "name": "ids", "unique": true };
        let seen = |name: &str| {
            let open = doc! {
                "key": { "sensorId": 1, "window": 1 }, "name": name, "unique": true,
                "partialFilterExpression": { "n": { "$lt": 50 } },
            };
            let found = seen(std::slice::from_ref(&bucket), &[other.clone(), open, ids.clone()]).unwrap();
            assert_eq!((found.page_size, found.item_id.as_deref()), (Some(50), Some("id")));
            is(Some(found.clone()), "sensorId", "readings", Some("n"));
            (found.window_seconds, found.window_field)
        };
        assert_eq!(seen("sensorId_1_n_lt_50_window_3600s"), (Some(3600), None));
        assert_eq!(seen("sensorId_1_window_1"), (None, None));
    }

    #[test]
    fn items_without_a_key_or_a_time_suggest_nothing() {
        let seen = |trade: &dyn Fn(i32) -> Document| {
            let mut seen = Seen::default();
            of_items(&sample::sample("trades", (0..20).map(trade), &[]), &mut seen);
            seen.profile.bucket.pop()
        };
        let flat = seen(&|n| doc! { "_id": n, "tradeId": n, "customerId": n % 3, "date": DateTime::now() }).unwrap();
        let names = [&flat.key, &flat.time, &flat.flat, &flat.collection].map(Option::as_deref);
        assert_eq!(names, ["customerId", "date", "trades", "trades_buckets"].map(Some));
        assert!(seen(&|n| doc! { "_id": n, "tradeId": n, "shopId": 5, "date": DateTime::now() }).is_none());
        assert!(seen(&|n| doc! { "_id": n, "customerId": n % 3 }).is_none());
    }
}
