//! The documents that a migration cannot migrate.

use mongodb::bson::Document;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::number;
use crate::error::{Error, ErrorKind};

/// How many documents a migration cannot migrate, by the first reason that applies. The method of the migration documents
/// the reasons.
///
/// ```
/// use mongo_patterns::InvalidDocuments;
///
/// let invalid = InvalidDocuments::from_iter([("key", 3), ("time", 1)]);
/// assert_eq!((invalid.get("key"), invalid.total()), (Some(3), 4));
/// assert_eq!(invalid.get("keys"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvalidDocuments(Vec<(&'static str, u64)>);

impl InvalidDocuments {
    /// Returns the number of all invalid documents.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, documents)| documents).sum()
    }

    /// Returns the number of documents with a reason. `None` if the migration has no such reason.
    #[must_use]
    pub fn get(&self, reason: &str) -> Option<u64> {
        let mut reasons = self.iter();
        reasons.find_map(|(name, documents)| (name == reason).then_some(documents))
    }

    /// Returns the reasons, in the order in which they are checked, with the numbers of documents.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().copied()
    }

    /// Refuses to skip everything, which a wrong setting causes.
    #[doc(hidden)]
    pub fn check_any_valid(&self, valid: u64, message: impl FnOnce() -> String) -> crate::Result<()> {
        match valid > 0 || self.total() == 0 {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidArgument, message())),
        }
    }

    /// Reads the numbers that an aggregation counted, in fields with the names of the reasons.
    #[doc(hidden)]
    #[must_use]
    pub fn of(found: &Document, reasons: &[&'static str]) -> Self {
        reasons.iter().map(|reason| (*reason, number(found, reason))).collect()
    }
}

impl FromIterator<(&'static str, u64)> for InvalidDocuments {
    fn from_iter<I: IntoIterator<Item = (&'static str, u64)>>(reasons: I) -> Self {
        Self(Vec::from_iter(reasons))
    }
}

impl Serialize for InvalidDocuments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (reason, documents) in &self.0 {
            map.serialize_entry(reason, documents)?;
        }
        map.end()
    }
}

/// The documents that a migration cannot migrate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FoundInvalid {
    /// The number of documents that were checked.
    pub checked: u64,
    /// How many of them are invalid.
    pub invalid: InvalidDocuments,
    /// A filter that finds all invalid documents of the collection.
    pub filter: Document,
}

impl FoundInvalid {
    /// Creates it.
    #[must_use]
    pub fn new(checked: u64, invalid: InvalidDocuments, filter: Document) -> Self {
        Self {
            checked,
            invalid,
            filter,
        }
    }
}
