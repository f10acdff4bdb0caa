//! The checked settings of an archive.

use std::time::Duration;

use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::Collection;
use mongodb::bson::{Document, RawDocumentBuf, doc};

pub(crate) struct Settings {
    /// The field with the time that decides.
    pub(crate) age: FieldName,
    /// The age from which documents are archived.
    pub(crate) older_than: Duration,
    /// Matches documents that are never archived.
    pub(crate) keep: Option<Document>,
    /// The field of each value of which the newest of the old documents is never archived.
    pub(crate) newest_by: Option<FieldName>,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
}

impl Settings {
    /// Returns the settings of the stored form. The age and the documents to keep can change at any time.
    pub(crate) fn stored_form(&self, archived: &Collection<RawDocumentBuf>) -> Document {
        let mut form = doc! {
            "age": self.age.as_str(),
            "archive_database": archived.namespace().db,
            "archive_collection": archived.name(),
        };
        if let Some(by) = &self.newest_by {
            form.insert("keep_newest_by", by.as_str());
        }
        form
    }
}

#[cfg(test)]
impl Settings {
    pub(crate) fn example() -> Self {
        Self {
            age: FieldName::new("date").unwrap(),
            older_than: Duration::from_secs(1),
            keep: None,
            newest_by: None,
            retry: RetryPolicy::default(),
            max_time: None,
        }
    }
}
