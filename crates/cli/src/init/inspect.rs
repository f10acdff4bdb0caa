//! Derives settings from a sample of a collection's documents. Pure.

use mongodb::bson::Document;

use super::buckets;
use super::fields::{self, Fields, key_fields};
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

pub(super) fn inspect(collection: &str, documents: &[Document], indexes: &[Document]) -> Inspection {
    let fields = fields::of(documents);
    let all = documents.len();
    let arrays = fields.iter().filter(|(_, field)| field.arrays * 2 > all);
    let array = arrays.max_by_key(|(_, field)| field.longest).map(|(name, _)| *name);
    let Some(array) = array else {
        return flat(collection, all, &fields);
    };
    match buckets::recognize(collection, array, documents, &fields, indexes) {
        Some(found) => Inspection {
            notes: found.notes,
            profile: Profile {
                bucket: Some(found.settings),
                ..Profile::default()
            },
            patterns: vec!["bucket"],
            array: None,
            is_flat: false,
        },
        None => outlier(collection, array, &fields),
    }
}

fn outlier(collection: &str, array: &str, fields: &Fields<'_>) -> Inspection {
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

fn flat(collection: &str, all: usize, fields: &Fields<'_>) -> Inspection {
    let key = key_fields(all, fields, &[]).first().copied();
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
    fn no_key_is_suggested_without_a_candidate() {
        let trade = |n: i32| doc! { "_id": n, "tradeId": n, "shopId": 5, "qty": 1, "date": DateTime::now() };
        let seen = inspect("trades", &(0..20).map(trade).collect::<Vec<_>>(), &[]);
        assert_eq!(seen.profile.bucket.unwrap().key, None);
        assert!(
            seen.notes
                .contains(&"no field is a candidate for the key, which groups the items: set it".to_owned())
        );
    }

    #[test]
    fn buckets_are_no_outliers() {
        let bucket = doc! { "_id": "7_1698335223", "customerId": 7, "count": 1, "history": [1] };
        let seen = inspect("trades", &[bucket], &[]);
        assert_eq!(seen.patterns, ["bucket"]);
        assert!(seen.profile.bucket.is_some() && seen.profile.outlier.is_none() && seen.array.is_none());
    }

    #[test]
    fn arrays_suggest_the_outlier_pattern() {
        let book = |n: i32| doc! { "_id": n, "customers": (0..n).collect::<Vec<_>>() };
        let seen = inspect("sales", &(0..20).map(book).collect::<Vec<_>>(), &[]);
        let outlier = seen.profile.outlier.unwrap();
        assert_eq!(outlier.array.as_deref(), Some("customers"));
    }
}
