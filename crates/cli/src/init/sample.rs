//! A sample of a collection, and what it shows of its fields.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt;
use mongo_patterns_core::index::list_indexes;
use mongodb::bson::{Bson, Document, doc};

use crate::context::Context;
use crate::failure::Failure;
use crate::profile::Profile;
use crate::settings::KeyType;

/// The number of sampled documents.
const SIZE: i64 = 200;
/// The number of references that are looked up.
pub(super) const LOOKED_UP: usize = 20;

/// What a sample shows.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) profile: Profile,
    /// One line each, with field names and without values.
    pub(super) notes: Vec<String>,
}

impl Seen {
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

pub(super) struct Sample {
    pub(super) collection: String,
    pub(super) documents: Vec<Document>,
    pub(super) indexes: Vec<Document>,
}

impl Sample {
    /// Reads documents at random, and the indexes. There are no documents if the collection does not exist.
    pub(super) async fn read(context: &Context, name: &str) -> Result<Self, Failure> {
        let collection = context.database.collection::<Document>(name);
        let on = || Failure::on(collection.namespace());
        let sample = collection.aggregate([doc! { "$sample": { "size": SIZE } }]).await;
        let documents: Vec<Document> = sample.map_err(on())?.try_collect().await.map_err(on())?;
        let indexes = match documents.is_empty() {
            true => Vec::new(),
            false => list_indexes(&collection).await?,
        };
        Ok(Self {
            collection: name.to_owned(),
            documents,
            indexes,
        })
    }

    /// Returns the names of all fields but `_id`.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        let names = self.documents.iter().flat_map(Document::keys).map(String::as_str);
        names.filter(|name| *name != "_id").collect()
    }

    /// Returns whether each document has the field, with such a value.
    pub(super) fn has(&self, field: &str, is: impl Fn(&Bson) -> bool) -> bool {
        self.documents
            .iter()
            .all(|document| document.get(field).is_some_and(&is))
    }

    /// Returns the different values of a field, without null.
    pub(super) fn distinct(&self, field: &str) -> Vec<&Bson> {
        let mut seen = BTreeSet::new();
        let values = self.documents.iter().filter_map(|document| document.get(field));
        let different = values.filter(|value| !matches!(value, Bson::Null) && seen.insert(value.to_string()));
        different.collect()
    }

    /// Returns the field that is an array in most documents: the longest.
    pub(super) fn array(&self) -> Option<&str> {
        let arrays = |name: &str| {
            self.documents
                .iter()
                .filter(|document| document.get_array(name).is_ok())
                .count()
        };
        let names = self.names().into_iter();
        names
            .filter(|name| arrays(name) * 2 > self.documents.len())
            .max_by_key(|name| self.longest(name))
    }

    pub(super) fn elements(&self, array: &str) -> impl Iterator<Item = &Bson> {
        self.documents
            .iter()
            .filter_map(move |document| document.get_array(array).ok())
            .flatten()
    }

    pub(super) fn longest(&self, array: &str) -> usize {
        let lengths = self.documents.iter().map(|document| length(document, array));
        lengths.max().unwrap_or(0)
    }

    /// Returns the keys of an index whose names begin with these, and whether it is unique.
    pub(super) fn indexes(&self) -> impl Iterator<Item = (Vec<&str>, bool)> {
        self.indexes.iter().filter_map(|index| {
            let keys = index.get_document("key").ok()?.keys().map(String::as_str);
            Some((keys.collect(), index.get_bool("unique").unwrap_or(false)))
        })
    }

    /// Returns the fields that all documents have, with values that a key can have.
    pub(super) fn candidates(&self, but: &[&str]) -> Vec<&str> {
        let names = self.names().into_iter().filter(|name| !but.contains(name));
        names
            .filter(|name| self.has(name, |value| KeyType::of(value).is_some()))
            .collect()
    }

    /// Returns the fields that may be the key, the most probable first: they group the documents, are preferably named like an
    /// id, and have few values. A field of another name that is nearly unique identifies the documents, or measures them.
    pub(super) fn key_fields(&self, but: &[&str]) -> Vec<&str> {
        let (all, is_far_below) = (self.documents.len(), |number: usize, all: usize| number * 10 <= all * 9);
        let groups = |name: &str| {
            let mut values: BTreeMap<String, usize> = BTreeMap::new();
            for value in self.documents.iter().filter_map(|document| document.get(name)) {
                *values.entry(value.to_string()).or_default() += 1;
            }
            let most = values.values().max().copied().unwrap_or(0);
            let is_key = values.len() < all && is_far_below(most, all);
            (is_key && (is_called_id(name) || is_far_below(values.len(), all))).then_some(values.len())
        };
        let candidates = self.candidates(but).into_iter();
        let mut found: Vec<(bool, usize, &str)> = candidates
            .filter_map(|name| Some((!is_called_id(name), groups(name)?, name)))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, _, name)| name).collect()
    }

    /// Returns whether a field is the length of the array in each document.
    pub(super) fn is_count(&self, array: &str, field: &str) -> bool {
        self.documents.iter().all(|document| {
            let length = i64::try_from(length(document, array));
            let count = document.get(field).and_then(integer);
            count.is_some() && length.ok() == count
        })
    }
}

pub(super) fn length(document: &Document, array: &str) -> usize {
    document.get_array(array).map_or(0, Vec::len)
}

/// Returns an integer. The legacy shell writes integers as doubles.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn integer(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) if number.fract() == 0.0 => Some(*number as i64),
        _ => None,
    }
}

pub(super) fn is_date(value: &Bson) -> bool {
    matches!(value, Bson::DateTime(_))
}

pub(super) fn is_called_id(name: &str) -> bool {
    name.ends_with("Id") || name.ends_with("_id") || name.ends_with("ID")
}

/// Creates a sample of a test.
#[cfg(test)]
pub(super) fn sample(collection: &str, documents: impl IntoIterator<Item = Document>, indexes: &[Document]) -> Sample {
    Sample {
        collection: collection.to_owned(),
        documents: documents.into_iter().collect(),
        indexes: indexes.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(document: impl Fn(i32) -> Document) -> Option<String> {
        let sample = sample("flights", (0..200).map(document), &[]);
        sample.key_fields(&[]).first().map(|key| (*key).to_owned())
    }

    #[test]
    fn a_key_is_neither_constant_nor_unique() {
        let flight = |n: i32| doc! { "_id": n, "reviewId": n, "year": 2013, "drug": format!("drug{}", n % 4) };
        assert_eq!(key_of(flight).as_deref(), Some("drug"));
        assert_eq!(
            key_of(|n| doc! { "_id": n, "reviewId": n, "customerId": 7, "year": 2013 }),
            None
        );
        assert_eq!(
            key_of(|n| doc! { "customerId": i32::from(n < 10) }),
            None,
            "nearly constant"
        );
        assert_eq!(
            key_of(|n| doc! { "customerId": i32::from(n < 20) }).as_deref(),
            Some("customerId")
        );
        assert_eq!(key_of(|n| doc! { "price": n.max(10) }), None, "nearly unique");
        assert_eq!(
            key_of(|n| doc! { "customerId": n.max(10) }).as_deref(),
            Some("customerId")
        );
    }

    #[test]
    fn a_count_is_the_length_in_each_document() {
        let is_count = |count: Bson| {
            let documents = [doc! { "items": [1, 2], "n": 2 }, doc! { "items": [1], "n": count }];
            sample("lists", documents, &[]).is_count("items", "n")
        };
        for count in [Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0)] {
            assert!(is_count(count));
        }
        for count in [Bson::Int32(2), Bson::Double(1.5), Bson::Null] {
            assert!(!is_count(count));
        }
    }
}
