//! Derives settings from a sample of a collection's documents. Pure.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::bson::{Bson, Document};

use crate::bucket::type_of;
use crate::profile::Profile;
use crate::settings::{BucketSettings, OutlierSettings};

/// The settings and notes that a sample suggests.
pub(super) struct Inspection {
    pub(super) profile: Profile,
    pub(super) patterns: Vec<&'static str>,
    /// One line each, with field names and without values.
    pub(super) notes: Vec<String>,
    /// The array field that contains the lists, if there is one.
    pub(super) array: Option<String>,
    /// Whether each document is an item.
    pub(super) is_flat: bool,
}

/// The values of a field in the sample.
#[derive(Default)]
struct Field {
    documents: usize,
    arrays: usize,
    dates: usize,
    keys: usize,
    /// The different values.
    different: BTreeSet<String>,
    longest: usize,
}

/// The index of open buckets: the key field, the count field, the page size, and the windows.
struct OpenIndex {
    key: String,
    count: String,
    page_size: Option<u32>,
    /// The field and the seconds of the windows, if there are any.
    window: Option<(String, u32)>,
}

impl OpenIndex {
    /// Returns the index of open buckets among those of a collection.
    fn of(indexes: &[Document]) -> Option<Self> {
        indexes.iter().find_map(|index| {
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
        })
    }
}

pub(super) fn inspect(collection: &str, documents: &[Document], indexes: &[Document]) -> Inspection {
    let mut fields: BTreeMap<&str, Field> = BTreeMap::new();
    for (name, value) in documents.iter().flatten() {
        let field = fields.entry(name).or_default();
        field.documents += 1;
        field.keys += usize::from(type_of(value).is_some());
        match value {
            Bson::Array(values) => {
                field.arrays += 1;
                field.longest = field.longest.max(values.len());
            }
            Bson::DateTime(_) => field.dates += 1,
            value => {
                field.different.insert(value.to_string());
            }
        }
    }
    let all = documents.len();
    let arrays = fields.iter().filter(|(_, field)| field.arrays * 2 > all);
    let array = arrays.max_by_key(|(_, field)| field.longest).map(|(name, _)| *name);
    let index = OpenIndex::of(indexes);
    let count = index.as_ref().map_or("count", |index| index.count.as_str());
    match array {
        Some(array) if is_bucket(documents, array, count) => {
            buckets(collection, array, documents, &fields, index.as_ref())
        }
        Some(array) => outlier(collection, array, &fields),
        None => flat(collection, all, &fields),
    }
}

/// Returns whether the `_id`s contain a second, and the count is the number of items.
fn is_bucket(documents: &[Document], array: &str, count: &str) -> bool {
    documents.iter().all(|document| {
        let id = document.get_str("_id").unwrap_or_default();
        let second = id
            .split('_')
            .skip(1)
            .any(|part| part.len() == 10 && part.bytes().all(|byte| byte.is_ascii_digit()));
        let items = document.get_array(array).map_or(0, Vec::len);
        let counted = match document.get(count) {
            Some(Bson::Int32(counted)) => usize::try_from(*counted).ok(),
            Some(Bson::Int64(counted)) => usize::try_from(*counted).ok(),
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count of the legacy shell
            Some(Bson::Double(counted)) => Some(*counted as usize),
            _ => None,
        };
        second && counted == Some(items)
    })
}

fn buckets(
    collection: &str,
    array: &str,
    documents: &[Document],
    fields: &BTreeMap<&str, Field>,
    index: Option<&OpenIndex>,
) -> Inspection {
    let longest = fields.get(array).map_or(0, |field| field.longest);
    let key = match index {
        Some(index) => Some(index.key.as_str()),
        None => key_field(documents.len(), fields, &[array, "count"]),
    };
    let page_size = index.map_or_else(|| u32::try_from(longest).ok(), |index| index.page_size);
    let window = index.and_then(|index| index.window.as_ref());
    let item = documents
        .iter()
        .find_map(|document| document.get_array(array).ok()?.first()?.as_document());
    let date = item.and_then(|item| item.iter().find(|(_, value)| matches!(value, Bson::DateTime(_))));
    let settings = BucketSettings {
        collection: Some(collection.to_owned()),
        key: key.map(str::to_owned),
        items: Some(array.to_owned()),
        time: date.map(|(name, _)| name.clone()),
        count: index.map(|index| index.count.clone()).filter(|count| count != "count"),
        window_seconds: window.map(|(_, seconds)| *seconds),
        window_field: window.map(|(field, _)| field.clone()).filter(|field| field != "window"),
        page_size,
        ..BucketSettings::default()
    };
    Inspection {
        notes: vec![
            format!("`_id` contains a second, and `count` is the length of `{array}`: these are buckets"),
            match index {
                Some(OpenIndex { window: None, .. }) => {
                    "key, count and page size are those of the index of open buckets".to_owned()
                }
                Some(_) => "key, count, page size and windows are those of the index of open buckets".to_owned(),
                None => format!("the fullest has {longest} items: check that this is the page size"),
            },
        ],
        profile: Profile {
            bucket: Some(settings),
            ..Profile::default()
        },
        patterns: vec!["bucket"],
        array: None,
        is_flat: false,
    }
}

fn outlier(collection: &str, array: &str, fields: &BTreeMap<&str, Field>) -> Inspection {
    let longest = fields.get(array).map_or(0, |field| field.longest);
    let settings = OutlierSettings {
        collection: Some(collection.to_owned()),
        extras_collection: Some(format!("{collection}_extras")),
        array: Some(array.to_owned()),
        parent: Some("parent_id".to_owned()),
        threshold: Some(50),
        cap: Some(500),
        ..OutlierSettings::default()
    };
    Inspection {
        notes: vec![
            format!("`{array}` is an array of up to {longest} elements"),
            "`outlier analyze` recommends a pattern and a threshold".to_owned(),
        ],
        profile: Profile {
            outlier: Some(settings),
            ..Profile::default()
        },
        patterns: vec!["outlier"],
        array: Some(array.to_owned()),
        is_flat: false,
    }
}

fn flat(collection: &str, all: usize, fields: &BTreeMap<&str, Field>) -> Inspection {
    let key = key_field(all, fields, &[]);
    let time = fields
        .iter()
        .find(|(_, field)| field.dates == all)
        .map(|(name, _)| *name);
    let note = |what: &str, field: Option<&str>| match field {
        Some(field) => format!("`{field}` is probably the {what}"),
        None => format!("no field is a candidate for the {what}: set it"),
    };
    let settings = BucketSettings {
        collection: Some(format!("{collection}_buckets")),
        flat: Some(collection.to_owned()),
        key: key.map(str::to_owned),
        items: Some("items".to_owned()),
        time: time.map(str::to_owned),
        page_size: Some(10),
        ..BucketSettings::default()
    };
    Inspection {
        notes: vec![
            "one document per item, without arrays: the source of `bucket migrate`".to_owned(),
            note("key, which groups the items", key),
            note("time of an item", time),
            "`bucket analyze` recommends a pattern and a size".to_owned(),
        ],
        profile: Profile {
            bucket: Some(settings),
            ..Profile::default()
        },
        patterns: vec!["bucket"],
        array: None,
        is_flat: true,
    }
}

pub(super) fn is_called_id(name: &str) -> bool {
    name.ends_with("Id") || name.ends_with("_id") || name.ends_with("ID")
}

/// Returns the field that is probably the key: all documents have it, it groups them, so it is neither constant nor
/// unique, it is preferably named like an id, and it has the fewest values.
fn key_field<'f>(all: usize, fields: &BTreeMap<&'f str, Field>, but: &[&str]) -> Option<&'f str> {
    let candidates = fields.iter().filter(|(name, field)| {
        **name != "_id" && !but.contains(name) && field.keys == all && field.dates == 0 && field.arrays == 0
    });
    candidates
        .min_by_key(|(name, field)| {
            let groups = field.different.len() > 1 && field.different.len() < all;
            (!groups, !is_called_id(name), field.different.len())
        })
        .map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, doc};

    use super::*;

    #[test]
    fn flat_documents_suggest_a_migration_to_buckets() {
        let trade = |n: i32| doc! { "_id": n, "tradeId": n, "customerId": n % 3, "qty": 1, "date": DateTime::now() };
        let seen = inspect("trades", &(0..20).map(trade).collect::<Vec<_>>(), &[]);
        let bucket = seen.profile.bucket.unwrap();
        assert_eq!(bucket.key.as_deref(), Some("customerId"));
        assert_eq!(bucket.time.as_deref(), Some("date"));
        assert_eq!(
            (bucket.flat.as_deref(), bucket.collection.as_deref()),
            (Some("trades"), Some("trades_buckets"))
        );
    }

    #[test]
    fn buckets_are_recognized_by_id_and_count() {
        let bucket =
            doc! { "_id": "7_1698335223", "customerId": 7, "count": 1, "history": [{ "date": DateTime::now() }] };
        let seen = inspect("trades", &[bucket], &[]);
        let bucket = seen.profile.bucket.unwrap();
        assert_eq!(
            (bucket.key.as_deref(), bucket.items.as_deref()),
            (Some("customerId"), Some("history"))
        );
        assert_eq!((bucket.time.as_deref(), bucket.page_size), (Some("date"), Some(1)));
    }

    #[test]
    fn the_index_of_open_buckets_names_key_count_and_page_size() {
        let bucket = doc! { "_id": "7_1698335223", "customerId": 7, "shopId": 1, "n": 1, "history": [{ "qty": 1 }] };
        let index = doc! {
            "v": 2, "key": { "customerId": 1 }, "name": "customerId_1_n_lt_50", "unique": true,
            "partialFilterExpression": { "n": { "$lt": 50 } },
        };
        let seen = inspect("trades", &[bucket], &[doc! { "key": { "_id": 1 } }, index]);
        let bucket = seen.profile.bucket.unwrap();
        assert_eq!(
            (bucket.key.as_deref(), bucket.count.as_deref(), bucket.page_size),
            (Some("customerId"), Some("n"), Some(50))
        );
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
            let seen = inspect("readings", std::slice::from_ref(&bucket), &[index(name)]);
            let bucket = seen.profile.bucket.unwrap();
            (bucket.key, bucket.page_size, bucket.window_seconds, bucket.window_field)
        };
        let key = Some("sensorId".to_owned());
        assert_eq!(
            seen("sensorId_1_count_lt_50_window_3600s"),
            (key.clone(), Some(50), Some(3600), None)
        );
        assert_eq!(seen("sensorId_1_window_1"), (key, Some(50), None, None));
    }

    #[test]
    fn a_key_is_neither_constant_nor_unique() {
        let flight = |n: i32| doc! { "_id": n, "reviewId": n, "year": 2013, "drug": format!("drug{}", n % 4) };
        let seen = inspect("flights", &(0..20).map(flight).collect::<Vec<_>>(), &[]);
        assert_eq!(seen.profile.bucket.unwrap().key.as_deref(), Some("drug"));
    }

    #[test]
    fn arrays_suggest_the_outlier_pattern() {
        let book = |n: i32| doc! { "_id": n, "customers": (0..n).collect::<Vec<_>>() };
        let seen = inspect("sales", &(0..20).map(book).collect::<Vec<_>>(), &[]);
        let outlier = seen.profile.outlier.unwrap();
        assert_eq!(outlier.array.as_deref(), Some("customers"));
    }
}
