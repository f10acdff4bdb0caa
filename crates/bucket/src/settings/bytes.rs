//! The settings of the bound of the bytes of a bucket.

use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::{FieldName, Result};
use mongodb::bson::{Document, doc};

/// The setting of the bound in the catalog.
pub(crate) const BYTES: &str = "bytes";

/// The most bytes of a document that are left to its items and their positions.
const MAX: u64 = 16 * 1024 * 1024 - 16 * 1024;

/// The most bytes of an item beside its value: its type, and its position up to ten million.
const HEAD: u64 = 9;

/// The bound of the bytes of the items of a bucket. A bucket with as many is full.
#[derive(Clone, Debug)]
pub(crate) struct ByteBound {
    /// The field of a bucket that contains the bytes of its items, or the bound if it was closed with fewer.
    pub(crate) field: FieldName,
    pub(crate) most: i32,
}

impl ByteBound {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`Configuration`](mongo_patterns_core::ErrorKind::Configuration).
    pub(crate) fn new(most: u32, field: String, page_size: u32) -> Result<Self> {
        if most == 0 || u64::from(most) + u64::from(page_size) * HEAD > MAX {
            return Err(configuration(
                "the number of bytes of a bucket is 0, or with 9 more for each item of a page above 16,760,832, which MongoDB's limit of 16 MiB leaves: set another number, or a smaller page size",
            ));
        }
        Ok(Self {
            field: FieldName::new(field)?,
            most: i32::try_from(most).unwrap_or(i32::MAX),
        })
    }

    /// Returns the bytes that a bucket should have: those of its items, or the bound if it is full with fewer.
    pub(crate) fn of_bucket(&self, is_full: bool, items: i64) -> i64 {
        if is_full { items.max(self.most.into()) } else { items }
    }

    /// Matches the bytes of a bucket that is not full.
    pub(crate) fn below(&self) -> Document {
        doc! { "$lt": self.most }
    }

    /// Returns whether stored bytes make the bucket full.
    pub(crate) fn is_full(&self, stored: Option<i64>) -> bool {
        stored.is_some_and(|stored| stored >= self.most.into())
    }

    /// Returns the settings, as the catalog stores them.
    pub(crate) fn stored_form(&self) -> Document {
        doc! { "field": self.field.as_str(), "most": self.most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_stays_below_the_limit_of_a_document() {
        let is_valid = |most, page_size| ByteBound::new(most, "bytes".to_owned(), page_size).is_ok();
        assert!(is_valid(8 * 1024 * 1024, 900_000) && is_valid(1, 1));
        assert!(!is_valid(0, 1) && !is_valid(8 * 1024 * 1024, 1_000_000) && !is_valid(16 * 1024 * 1024, 1));
    }
}
