//! The checked settings of counters.

use std::time::Duration;

use mongo_patterns_core::{FieldName, RetryPolicy};

#[derive(Debug)]
pub(crate) struct Settings {
    /// The field with the count.
    pub(crate) field: FieldName,
    /// The field with the last batches of the processes that count the document.
    pub(crate) batches: FieldName,
    pub(crate) interval: Duration,
    /// Whether a document that does not exist is inserted.
    pub(crate) upsert: bool,
    pub(crate) retry: RetryPolicy,
}

#[cfg(test)]
impl Settings {
    pub(crate) fn example() -> Self {
        Self {
            field: FieldName::new("views").unwrap(),
            batches: FieldName::new("views_batches").unwrap(),
            interval: Duration::from_secs(1),
            upsert: false,
            retry: RetryPolicy::default(),
        }
    }
}
