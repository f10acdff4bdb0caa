//! The age of documents: which of them are old enough to leave their collection.

use std::time::Duration;

use mongodb::bson::{DateTime, Document, doc};

use crate::catalog::storable_filter;
use crate::error::Result;
use crate::field::{FieldName, no_array};
use crate::migration::and;
use crate::settings::{configuration, required};

/// The documents that are old enough: by the date in a field, except documents to keep.
pub struct AgeLimit {
    /// The field with the date.
    pub field: FieldName,
    age: Duration,
    keep: Option<Document>,
}

crate::redacted_debug!(AgeLimit, |limit| "field" = limit.field.as_str());

impl AgeLimit {
    /// Checks the settings of a builder.
    pub fn new(age_field: Option<String>, older_than: Option<Duration>, keep: Option<Document>) -> Result<Self> {
        let field = FieldName::new(required(age_field, "age_field")?)?;
        if keep.as_ref().is_some_and(Document::is_empty) {
            return Err(configuration(
                "the filter of documents to keep is empty and matches all: leave it out",
            ));
        }
        let age = required(older_than, "older_than")?;
        Ok(Self { field, age, keep })
    }

    /// Adds the settings of the stored form: the filter, by which no other archive of the collection may move or delete
    /// documents.
    pub fn add_settings(&self, settings: &mut Document) {
        if let Some(keep) = &self.keep {
            settings.insert("keep", storable_filter(keep));
        }
    }

    /// Returns the time before which a document is old enough, by the clock of this process.
    pub fn time(&self) -> DateTime {
        let age = i64::try_from(self.age.as_millis()).unwrap_or(i64::MAX);
        DateTime::from_millis(DateTime::now().timestamp_millis().saturating_sub(age))
    }

    /// Matches the documents from before a time, but for those to keep.
    pub fn before(&self, time: DateTime) -> Document {
        let old = before(self.field.as_str(), time);
        match &self.keep {
            None => old,
            Some(keep) => and(old, doc! { "$nor": [keep.clone()] }),
        }
    }
}

/// Matches documents whose date is before a time. A date is compared with dates only. An array of dates is none.
pub fn before(field: &str, time: DateTime) -> Document {
    doc! { field: no_array(doc! { "$lt": time }) }
}

/// Returns the keys of the index that finds documents by their date.
pub fn index(field: &str) -> Document {
    doc! { field: 1, "_id": 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn limit(keep: Option<Document>) -> Result<AgeLimit> {
        AgeLimit::new(Some("date".to_owned()), Some(Duration::MAX), keep)
    }

    #[test]
    fn documents_to_keep_are_left_out() {
        let time = DateTime::from_millis(5);
        let old = doc! { "date": { "$lt": time, "$not": { "$type": "array" } } };
        assert_eq!(limit(None).unwrap().before(time), old);
        let keep = doc! { "retentionPolicy": "permanent" };
        let kept = doc! { "$nor": [keep.clone()] };
        assert_eq!(limit(Some(keep)).unwrap().before(time), doc! { "$and": [old, kept] });
    }

    #[test]
    fn no_age_is_too_long() {
        assert!(limit(None).unwrap().time() < DateTime::from_millis(0));
    }

    #[test]
    fn what_would_archive_nothing_is_refused() {
        let missing = AgeLimit::new(Some("date".to_owned()), None, None);
        for refused in [limit(Some(doc! {})), missing] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Configuration);
        }
    }
}
