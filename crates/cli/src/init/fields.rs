//! The fields of sampled documents, and the one that groups them. Pure.

use std::collections::BTreeMap;

use mongodb::bson::{Bson, Document};

use crate::settings::KeyType;

/// The fields of a sample, by their names.
pub(super) type Fields<'d> = BTreeMap<&'d str, Field>;

/// The values of a field in the sample.
#[derive(Default)]
pub(super) struct Field {
    pub(super) arrays: usize,
    pub(super) dates: usize,
    /// The number of values that a key can have.
    keys: usize,
    /// How often each value occurs.
    values: BTreeMap<String, usize>,
    pub(super) longest: usize,
}

impl Field {
    /// Returns whether several documents have one value, and nearly all documents do not.
    pub(super) fn groups(&self) -> bool {
        let all: usize = self.values.values().sum();
        let most = self.values.values().max().copied().unwrap_or(0);
        self.values.len() < all && is_far_below(most, all)
    }
}

/// Returns whether a number is at most nine tenths of another.
fn is_far_below(number: usize, all: usize) -> bool {
    number * 10 <= all * 9
}

pub(super) fn of(documents: &[Document]) -> Fields<'_> {
    let mut fields = Fields::new();
    for (name, value) in documents.iter().flatten() {
        let field = fields.entry(name).or_default();
        field.keys += usize::from(KeyType::of(value).is_some());
        match value {
            Bson::Array(values) => {
                field.arrays += 1;
                field.longest = field.longest.max(values.len());
            }
            Bson::DateTime(_) => field.dates += 1,
            value => *field.values.entry(value.to_string()).or_default() += 1,
        }
    }
    fields
}

pub(super) fn is_called_id(name: &str) -> bool {
    name.ends_with("Id") || name.ends_with("_id") || name.ends_with("ID")
}

/// Returns the fields that all documents have, with values that a key can have.
pub(super) fn candidates<'f>(
    all: usize,
    fields: &'f Fields<'_>,
    but: &'f [&str],
) -> impl Iterator<Item = (&'f str, &'f Field)> {
    let fields = fields.iter().map(|(name, field)| (*name, field));
    fields.filter(move |(name, field)| *name != "_id" && !but.contains(name) && field.keys == all)
}

/// Returns the fields that may be the key, the most probable first: they group the documents, are preferably named like an
/// id, and have few values. A field of another name that is nearly unique identifies the documents, or measures them.
pub(super) fn key_fields<'f>(all: usize, fields: &'f Fields<'_>, but: &'f [&str]) -> Vec<&'f str> {
    let groups = |(name, field): &(&str, &Field)| {
        field.groups() && (is_called_id(name) || is_far_below(field.values.len(), all))
    };
    let mut found: Vec<(&str, &Field)> = candidates(all, fields, but).filter(groups).collect();
    found.sort_by_key(|(name, field)| (!is_called_id(name), field.values.len()));
    found.into_iter().map(|(name, _)| name).collect()
}

/// Returns whether a field is the length of the array in each document.
pub(super) fn is_count(documents: &[Document], array: &str, field: &str) -> bool {
    documents.iter().all(|document| {
        let length = i64::try_from(document.get_array(array).map_or(0, Vec::len));
        let count = match document.get(field) {
            Some(Bson::Int32(count)) => Some(i64::from(*count)),
            Some(Bson::Int64(count)) => Some(*count),
            // The legacy shell writes integers as doubles.
            #[allow(clippy::cast_possible_truncation)]
            Some(Bson::Double(count)) if count.fract() == 0.0 => Some(*count as i64),
            _ => None,
        };
        length.ok() == count && count.is_some()
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn key_of(document: impl Fn(i32) -> Document) -> Option<String> {
        let documents: Vec<Document> = (0..200).map(document).collect();
        let fields = of(&documents);
        key_fields(documents.len(), &fields, &[])
            .first()
            .map(|key| (*key).to_owned())
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
        let counted = |count: Bson| [doc! { "items": [1, 2], "n": 2 }, doc! { "items": [1], "n": count }];
        for count in [Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0)] {
            assert!(is_count(&counted(count), "items", "n"));
        }
        for count in [Bson::Int32(2), Bson::Double(1.5), Bson::Null] {
            assert!(!is_count(&counted(count), "items", "n"));
        }
    }
}
