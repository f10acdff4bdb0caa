//! The checked settings.

use std::time::Duration;

use mongo_patterns_core::index::PlannedIndex;
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::{Document, doc};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) id: FieldName,
    pub(crate) from: FieldName,
    pub(crate) to: FieldName,
    pub(crate) valid: FieldName,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
    /// The unique index of the valid documents.
    pub(crate) valid_index: String,
    /// The unique index of all intervals by their start.
    pub(crate) start_index: String,
}

impl Settings {
    /// Returns the settings with the names of their indexes.
    pub(crate) fn new([id, from, to, valid]: [FieldName; 4], retry: RetryPolicy, max_time: Option<Duration>) -> Self {
        Self {
            valid_index: format!("{id}_1_{valid}"),
            start_index: format!("{id}_1_{from}_1"),
            id,
            from,
            to,
            valid,
            retry,
            max_time,
        }
    }

    /// Returns the settings that name a field of every interval, as the catalog stores them.
    pub(crate) fn fields(&self) -> Vec<(&'static str, &str)> {
        vec![
            ("id", self.id.as_str()),
            ("valid_from", self.from.as_str()),
            ("valid_to", self.to.as_str()),
            ("valid", self.valid.as_str()),
        ]
    }

    /// Returns the settings as the catalog stores them.
    pub(crate) fn stored_form(&self) -> Document {
        let fields = self.fields().into_iter();
        fields
            .map(|(setting, field)| (setting.to_owned(), field.into()))
            .collect()
    }

    /// Returns whether an index is one of the pattern.
    pub(crate) fn is_of_intervals(&self, index: Option<&str>) -> bool {
        index.is_some_and(|index| [&self.valid_index, &self.start_index].iter().any(|own| *own == index))
    }

    pub(crate) fn indexes(&self) -> Vec<PlannedIndex> {
        let (id, from) = (self.id.as_str(), self.from.as_str());
        vec![
            PlannedIndex::new(&self.valid_index, doc! { id: 1 })
                .unique()
                .partial(doc! { self.valid.as_str(): true }),
            PlannedIndex::new(&self.start_index, doc! { id: 1, from: 1 }).unique(),
        ]
    }
}

#[cfg(test)]
impl Settings {
    /// The settings of the manual.
    pub(crate) fn example() -> Self {
        let fields =
            ["item", "validFrom", "validTo", "isValid"].map(|name| FieldName::new(name).expect("a plain name"));
        Self::new(fields, RetryPolicy::default(), None)
    }
}
