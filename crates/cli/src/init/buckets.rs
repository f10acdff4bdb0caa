//! Recognizes buckets in a sample, whichever program wrote them. Pure.
//!
//! # Design
//!
//! ## What makes documents buckets?
//!
//! A field is the length of their array. That alone is so for posts with a number of comments too. So one of these is
//! needed: the index of open buckets; a time in each `_id`; the names of the manual; or a key that several documents share,
//! with items of a time, and beside them only figures and what belongs to the key.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::bson::{Bson, Document};

use super::fields::{Fields, candidates, is_called_id, is_count, key_fields};
use crate::settings::BucketSettings;

/// The names of the manual and its articles.
const ARRAYS: [&str; 2] = ["history", "measurements"];
const COUNTS: [&str; 2] = ["count", "transaction_count"];
/// From 2001 to 2049.
const SECONDS: std::ops::Range<i64> = 1_000_000_000..2_500_000_000;

/// The settings of buckets, and notes about them.
pub(super) struct Buckets {
    pub(super) settings: BucketSettings,
    pub(super) notes: Vec<String>,
}

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
        let page_size = match below.as_document()?.get("$lt")? {
            Bson::Int32(size) => u32::try_from(*size).ok(),
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a size of the legacy shell
            Bson::Double(size) => Some(*size as u32),
            _ => None,
        };
        let (key, count) = (key.clone(), count.clone());
        // The name ends with the field and the seconds, such as `_window_3600s`.
        let name = index.get_str("name").unwrap_or_default();
        let window = window.and_then(|field| {
            let (_, seconds) = name.strip_suffix('s')?.rsplit_once(&format!("_{field}_"))?;
            Some((field.clone(), seconds.parse().ok()?))
        });
        Some(Self {
            key,
            count,
            page_size,
            window,
        })
    }
}

/// Returns the settings of documents with an array, if they are buckets.
pub(super) fn recognize(
    collection: &str,
    array: &str,
    documents: &[Document],
    fields: &Fields<'_>,
    indexes: &[Document],
) -> Option<Buckets> {
    let mut open = indexes.iter().filter_map(OpenIndex::of);
    let index = open.find(|index| is_count(documents, array, &index.count));
    let count = match &index {
        Some(index) => index.count.as_str(),
        None => count_field(documents, array)?,
    };
    let but = [array, count];
    let time = time_field(documents, array);
    let keys = key_fields(documents.len(), fields, &but);
    let mut shared = keys.iter().filter(|key| has_only_figures(documents, key, but));
    let shared = shared.next().filter(|_| time.is_some());
    let key = match &index {
        Some(index) => Some(index.key.as_str()),
        None => key_of_ids(documents, fields, &but)
            .or_else(|| shared.or(keys.first()).copied())
            .or_else(|| only_id(documents, fields, &but)),
    };
    let why = if index.is_some() {
        "there is an index of open buckets".to_owned()
    } else if documents
        .iter()
        .all(|document| document.get("_id").is_some_and(has_time))
    {
        "`_id` contains a time".to_owned()
    } else if ARRAYS.contains(&array) && COUNTS.contains(&count) {
        "these are names of the manual".to_owned()
    } else {
        format!("several documents have one `{}`", shared?)
    };

    let longest = fields.get(array).map_or(0, |field| field.longest);
    let window = index.as_ref().and_then(|index| index.window.as_ref());
    let mut notes = vec![
        format!("`{count}` is the length of `{array}`, and {why}: these are buckets"),
        match &index {
            Some(OpenIndex { window: None, .. }) => {
                "key, count and page size are those of the index of open buckets".to_owned()
            }
            Some(_) => "key, count, page size and windows are those of the index of open buckets".to_owned(),
            None => format!("the fullest has {longest} items: check that this is the page size"),
        },
    ];
    if key.is_none() {
        notes.push("no field is a candidate for the key: set it".to_owned());
    }
    if !documents
        .iter()
        .all(|document| document.get("_id").is_some_and(has_second))
    {
        notes.push("`_id` is not a key and a second: `bucket repair` writes such `_id`s".to_owned());
    }
    let settings = BucketSettings {
        collection: Some(collection.to_owned()),
        key: key.map(str::to_owned),
        items: Some(array.to_owned()),
        time: time.map(str::to_owned),
        count: Some(count.to_owned()).filter(|count| count != "count"),
        window_seconds: window.map(|(_, seconds)| *seconds),
        window_field: window.map(|(field, _)| field.clone()).filter(|field| field != "window"),
        page_size: match &index {
            Some(index) => index.page_size,
            None => u32::try_from(longest).ok(),
        },
        ..BucketSettings::default()
    };
    Some(Buckets { settings, notes })
}

/// Returns the field that is the length of the array. One of an unusual name must have different values, because a constant
/// can be equal by chance.
fn count_field<'d>(documents: &'d [Document], array: &str) -> Option<&'d str> {
    let lengths = documents
        .iter()
        .map(|document| document.get_array(array).map_or(0, Vec::len));
    let is_constant = lengths.collect::<BTreeSet<usize>>().len() < 2;
    let rank = |name: &str| match COUNTS.iter().position(|count| *count == name) {
        Some(position) => position,
        None if name.to_lowercase().contains("count") => COUNTS.len(),
        None => COUNTS.len() + 1,
    };
    let names = documents.first()?.keys().map(String::as_str);
    let counts = names.filter(|name| is_count(documents, array, name));
    counts
        .filter(|name| !is_constant || rank(name) <= COUNTS.len())
        .min_by_key(|name| rank(name))
}

/// Returns the field whose value is in each `_id`: before its second, or as a field of it.
fn key_of_ids<'f>(documents: &[Document], fields: &'f Fields<'_>, but: &'f [&str]) -> Option<&'f str> {
    let is_in_ids = |name: &str| {
        let ids = documents
            .iter()
            .map(|document| document.get("_id").zip(document.get(name)));
        let is_in = |(id, value): (&Bson, &Bson)| match id {
            Bson::String(id) => text(value).is_some_and(|text| {
                let rest = id.strip_prefix(text.as_str());
                rest.is_some_and(|rest| rest.starts_with(|next: char| !next.is_alphanumeric()))
            }),
            Bson::Document(id) => id.values().any(|part| part == value),
            _ => false,
        };
        ids.into_iter().all(|id| id.is_some_and(is_in))
    };
    candidates(documents.len(), fields, but)
        .filter(|(name, _)| is_in_ids(name))
        .min_by_key(|(name, field)| (!field.groups(), !is_called_id(name)))
        .map(|(name, _)| name)
}

/// Returns the only field that is named like an id, for a sample in which each key has one bucket.
fn only_id<'f>(documents: &[Document], fields: &'f Fields<'_>, but: &'f [&str]) -> Option<&'f str> {
    let mut ids = candidates(documents.len(), fields, but).filter(|(name, _)| is_called_id(name));
    ids.next().filter(|_| ids.next().is_none()).map(|(name, _)| name)
}

/// Returns the text of a key in an `_id`.
fn text(value: &Bson) -> Option<String> {
    match value {
        Bson::String(text) => Some(text.clone()),
        Bson::Int32(number) => Some(number.to_string()),
        Bson::Int64(number) => Some(number.to_string()),
        Bson::Double(number) => Some(number.to_string()),
        Bson::ObjectId(id) => Some(id.to_hex()),
        _ => None,
    }
}

/// Returns whether an `_id` contains a second or a millisecond, as part of its text or as a field.
fn has_time(id: &Bson) -> bool {
    match id {
        Bson::String(id) => parts(id).any(|part| part.len() == 13) || has_second_text(id),
        Bson::Document(id) => id.values().any(|part| match part {
            Bson::DateTime(_) => true,
            Bson::Int64(time) => SECONDS.contains(time) || SECONDS.contains(&(time / 1000)),
            Bson::Int32(time) => SECONDS.contains(&i64::from(*time)),
            #[allow(clippy::cast_possible_truncation)] // a number of the legacy shell
            Bson::Double(time) => SECONDS.contains(&(*time as i64)) || SECONDS.contains(&((*time / 1000.0) as i64)),
            _ => false,
        }),
        _ => false,
    }
}

/// Returns whether an `_id` is a text with a second, as the library writes it.
fn has_second(id: &Bson) -> bool {
    id.as_str().is_some_and(has_second_text)
}

fn has_second_text(id: &str) -> bool {
    parts(id).any(|part| part.len() == 10)
}

/// Returns the numbers of an `_id` after its first part.
fn parts(id: &str) -> impl Iterator<Item = &str> {
    let parts = id.split(|part: char| !part.is_alphanumeric()).skip(1);
    parts.filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the field of the items that is a date in all of them.
fn time_field<'d>(documents: &'d [Document], array: &str) -> Option<&'d str> {
    let items = || {
        documents
            .iter()
            .filter_map(|document| document.get_array(array).ok())
            .flatten()
    };
    let has_date = |item: &Bson, name: &str| {
        let item = item.as_document();
        item.is_some_and(|item| matches!(item.get(name), Some(Bson::DateTime(_))))
    };
    let names = items().next()?.as_document()?.keys();
    names
        .map(String::as_str)
        .find(|name| items().all(|item| has_date(item, name)))
}

/// Returns whether documents have only numbers and dates beside their key, items and count, and values that are the same in
/// all documents of a key.
fn has_only_figures(documents: &[Document], key: &str, but: [&str; 2]) -> bool {
    let mut of_keys: BTreeMap<(String, &str), &Bson> = BTreeMap::new();
    let own = |name: &str| name == "_id" || name == key || but.contains(&name);
    documents.iter().all(|document| {
        let key = document.get(key).map(Bson::to_string).unwrap_or_default();
        let mut others = document.iter().filter(|(name, _)| !own(name));
        others.all(|(name, value)| {
            let of_key = (key.clone(), name.as_str());
            is_figure(value) || *of_keys.entry(of_key).or_insert(value) == value
        })
    })
}

fn is_figure(value: &Bson) -> bool {
    match value {
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) | Bson::DateTime(_) | Bson::Null => {
            true
        }
        Bson::Document(figures) => figures.values().all(is_figure),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::oid::ObjectId;
    use mongodb::bson::{DateTime, doc};

    use super::*;
    use crate::init::fields;

    const SECOND: i64 = 1_698_335_223;

    fn seen(documents: &[Document], indexes: &[Document]) -> Option<BucketSettings> {
        let fields = fields::of(documents);
        let array = fields.iter().find(|(_, field)| field.arrays > 0).unwrap().0;
        recognize("trades", array, documents, &fields, indexes).map(|found| found.settings)
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
            let sensors: [(&str, &dyn Fn(i32) -> Bson); 5] = [
                ("object ids", &|_| ObjectId::new().into()),
                ("numbers", &Bson::Int32),
                ("milliseconds", &|n| {
                    format!("{}_{}", n % keys, SECOND * 1000 + i64::from(n)).into()
                }),
                ("documents", &|n| doc! { "sensor_id": n % keys, "page": n }.into()),
                ("dates", &|n| {
                    doc! { "sensor": n % keys, "day": DateTime::from_millis(SECOND) }.into()
                }),
            ];
            for (ids, id) in sensors {
                let bucket = |n: i32| {
                    doc! {
                        "_id": id(n), "sensor_id": n % keys, "start_date": DateTime::from_millis(i64::from(n)),
                        "measurements": items(1 + n % 3), "transaction_count": 1 + n % 3, "sum_temperature": n,
                    }
                };
                let buckets: Vec<Document> = (0..number).map(bucket).collect();
                let found = seen(&buckets, &[]);
                assert!(found.is_some(), "{ids}: {number} of {keys}");
                is(found, "sensor_id", "measurements", Some("transaction_count"));
            }
        }
    }

    #[test]
    fn buckets_of_other_names_are_recognized_by_a_shared_key() {
        let bucket = |n: i32| {
            doc! {
                "_id": ObjectId::new(), "device": format!("device{}", n % 6), "room": format!("room{}", n % 2),
                "values": items(1 + n % 3), "nsamples": 1 + n % 3, "figures": { "min": 1, "max": 2.5 },
            }
        };
        let buckets: Vec<Document> = (0..20).map(bucket).collect();
        is(seen(&buckets, &[]), "device", "values", Some("nsamples"));
    }

    #[test]
    fn lists_with_a_length_are_no_buckets() {
        let post = |n: i32| {
            doc! {
                "_id": ObjectId::new(), "author_id": n % 6, "title": format!("title {n}"), "comments": items(n % 3),
                "comment_count": n % 3,
            }
        };
        let posts: Vec<Document> = (0..20).map(post).collect();
        assert!(seen(&posts, &[]).is_none());
        let overflow = |n: i32| doc! { "_id": n, "book_id": n % 6, "seq": n, "count": n % 3, "extras": vec![1; usize::try_from(n % 3).unwrap()] };
        let overflow: Vec<Document> = (0..20).map(overflow).collect();
        assert!(seen(&overflow, &[]).is_none());
        let differ = |n: i32| doc! { "_id": "7_1698335223", "sensor_id": 1, "count": n, "measurements": items(2) };
        assert!(seen(&[differ(2), differ(3)], &[]).is_none());
    }

    #[test]
    fn the_index_of_open_buckets_names_key_count_and_page_size() {
        let bucket = doc! { "_id": 5, "customerId": 7, "shopId": 1, "n": 1, "history": [{ "qty": 1 }] };
        let other = doc! { "v": 2, "key": { "stock": 1 }, "name": "stock", "partialFilterExpression": { "stock": { "$lt": 5 } } };
        let index = doc! {
            "v": 2, "key": { "customerId": 1 }, "name": "customerId_1_n_lt_50", "unique": true,
            "partialFilterExpression": { "n": { "$lt": 50 } },
        };
        let indexes = [doc! { "key": { "_id": 1 } }, other, index];
        let found = seen(&[bucket], &indexes).unwrap();
        assert_eq!(found.page_size, Some(50));
        is(Some(found), "customerId", "history", Some("n"));
    }

    #[test]
    fn the_index_of_open_buckets_names_the_windows() {
        let hour = DateTime::from_millis(1_698_332_400_000);
        let bucket =
            doc! { "_id": "7_1698335223", "sensorId": 7, "window": hour, "count": 1, "readings": [{ "date": hour }] };
        let index = |name: &str| {
            doc! {
                "v": 2, "key": { "sensorId": 1, "window": 1 }, "name": name, "unique": true,
                "partialFilterExpression": { "count": { "$lt": 50 } },
            }
        };
        let seen = |name: &str| {
            let bucket = seen(std::slice::from_ref(&bucket), &[index(name)]).unwrap();
            (bucket.key, bucket.page_size, bucket.window_seconds, bucket.window_field)
        };
        let key = Some("sensorId".to_owned());
        assert_eq!(
            seen("sensorId_1_count_lt_50_window_3600s"),
            (key.clone(), Some(50), Some(3600), None)
        );
        assert_eq!(seen("sensorId_1_window_1"), (key, Some(50), None, None));
    }
}
