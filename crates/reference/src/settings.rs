//! The checked settings.

pub(crate) mod bare;
pub(crate) mod copied;

use std::collections::BTreeMap;
use std::time::Duration;

use mongo_patterns_core::index::PlannedIndex;
use mongo_patterns_core::{Error, ErrorKind, FieldName, RetryPolicy};
use mongodb::bson::{Document, doc};

use crate::settings::copied::CopiedField;

/// The field of a source that its deletion sets for the time of its check, to an ObjectId.
pub(crate) const MARK: &str = "mongo_patterns_deleting";
/// The field of a copy whose source was deleted.
pub(crate) const DELETED: &str = "deleted";

/// A field of referring documents with references to sources.
#[derive(Clone, Debug)]
pub(crate) struct ReferenceField {
    /// The position of its collection.
    pub(crate) collection: usize,
    pub(crate) name: FieldName,
    pub(crate) copied: Vec<CopiedField>,
    /// Whether the field is an array of references.
    pub(crate) is_array: bool,
    /// Whether the copies stay as they were stored.
    pub(crate) is_snapshot: bool,
    pub(crate) index: String,
}

impl ReferenceField {
    /// Returns the path of a field of the reference, such as `customer.v`.
    pub(crate) fn path(&self, field: &str) -> String {
        format!("{}.{field}", self.name)
    }
}

/// Returns the name of the index of the source key.
pub(crate) fn key_index(key: &FieldName) -> String {
    format!("{key}_1")
}

/// The error of an invalid argument of a call.
pub(crate) fn invalid_argument(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The field of the version, in sources and copies.
    pub(crate) version: FieldName,
    /// The unique field that names sources in documents of the caller, if it is not `_id`. It is copied.
    pub(crate) key: Option<FieldName>,
    /// The first is the builder's reference.
    pub(crate) references: Vec<ReferenceField>,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
}

impl Settings {
    /// Returns the settings with the names of the indexes.
    pub(crate) fn new(version: FieldName, mut references: Vec<ReferenceField>, retry: RetryPolicy) -> Self {
        for reference in &mut references {
            reference.index = format!("{}_1", reference.path("_id"));
        }
        Self {
            version,
            key: None,
            references,
            retry,
            max_time: None,
        }
    }

    /// Returns the field that names sources in documents of the caller.
    pub(crate) fn named_by(&self) -> &str {
        self.key.as_ref().map_or("_id", FieldName::as_str)
    }

    /// Returns the references of the documents that the repository inserts and reads.
    pub(crate) fn own(&self) -> impl Iterator<Item = &ReferenceField> {
        self.of_collection(0)
    }

    pub(crate) fn of_collection(&self, collection: usize) -> impl Iterator<Item = &ReferenceField> {
        self.references
            .iter()
            .filter(move |reference| reference.collection == collection)
    }

    /// Returns the references whose copies follow their sources.
    pub(crate) fn followed(&self) -> impl Iterator<Item = &ReferenceField> {
        self.references.iter().filter(|reference| !reference.is_snapshot)
    }

    /// Returns the settings as the catalog stores them. The order of the calls of the builder does not matter.
    pub(crate) fn stored_form(&self, sources: &str, collections: &[&str]) -> Document {
        let one = |reference: &ReferenceField| {
            let copied = reference.copied.iter();
            let mut copied: Vec<_> = copied.map(|field| (field.target.text(), field.source.text())).collect();
            copied.sort_unstable();
            let copied = copied
                .iter()
                .map(|(target, source)| doc! { "field": target, "from": source });
            let collection = collections.get(reference.collection).copied().unwrap_or_default();
            let stored = doc! {
                "collection": collection,
                "field": reference.name.as_str(),
                "array": reference.is_array,
                "snapshot": reference.is_snapshot,
                "copied": copied.collect::<Vec<_>>(),
            };
            ((collection.to_owned(), reference.name.as_str().to_owned()), stored)
        };
        let references: BTreeMap<_, _> = self.references.iter().map(one).collect();
        let mut stored = doc! {
            "source_collection": sources,
            "version": self.version.as_str(),
            "references": references.into_values().collect::<Vec<_>>(),
        };
        if let Some(key) = &self.key {
            stored.insert("source_key", key.as_str());
        }
        stored
    }

    pub(crate) fn source_indexes(&self) -> Vec<PlannedIndex> {
        let of_key = |key: &FieldName| PlannedIndex::new(key_index(key), doc! { key.as_str(): 1 }).unique();
        self.key.iter().map(of_key).collect()
    }

    /// Returns the indexes of a referring collection.
    pub(crate) fn indexes(&self, collection: usize) -> Vec<PlannedIndex> {
        let planned = |reference: &ReferenceField| {
            let of_version = format!("{}_{}_1", reference.index, reference.path(self.version.as_str()));
            PlannedIndex::new(&reference.index, doc! { reference.path("_id"): 1 }).replaces(of_version)
        };
        self.of_collection(collection).map(planned).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a reference field for tests.
    pub(crate) fn field(name: &str, copied: &[(&str, &str)]) -> ReferenceField {
        let copied = copied
            .iter()
            .map(|(target, source)| CopiedField::new(target, source).unwrap());
        ReferenceField {
            collection: 0,
            name: FieldName::new(name).unwrap(),
            copied: copied.collect(),
            is_array: false,
            is_snapshot: false,
            index: String::new(),
        }
    }

    /// Orders with their customer, and with the products that were bought.
    pub(crate) fn example() -> Settings {
        let products = ReferenceField {
            is_array: true,
            ..field("products", &[("name", "name")])
        };
        let customer = field("customer", &[("name", "name"), ("address.city", "address.city")]);
        let version = FieldName::new("v").unwrap();
        Settings::new(version, vec![customer, products], RetryPolicy::default())
    }

    #[test]
    fn the_names_of_the_indexes_are_those_of_the_shell() {
        let settings = example();
        let customer = PlannedIndex::new("customer._id_1", doc! { "customer._id": 1 });
        let customer = customer.replaces("customer._id_1_customer.v_1");
        let products = PlannedIndex::new("products._id_1", doc! { "products._id": 1 });
        let products = products.replaces("products._id_1_products.v_1");
        assert_eq!(settings.indexes(0), [customer, products]);
        assert_eq!(settings.indexes(1), []);
    }
}
