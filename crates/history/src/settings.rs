//! The checked settings.

use std::time::Duration;

use mongo_patterns_core::index::PlannedIndex;
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::{Document, doc};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) id: FieldName,
    pub(crate) revision: FieldName,
    pub(crate) time: FieldName,
    pub(crate) deleted: FieldName,
    /// The fields that describe a change.
    pub(crate) change: Vec<FieldName>,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
    /// The unique index of the current documents.
    pub(crate) current_index: String,
    /// The unique index of the revisions.
    pub(crate) revision_index: String,
    /// The index of the revisions by time.
    pub(crate) time_index: String,
}

impl Settings {
    /// Returns the settings with the names of their indexes.
    pub(crate) fn new(fields: [FieldName; 4], change: Vec<FieldName>, retry: RetryPolicy) -> Self {
        let [id, revision, time, deleted] = fields;
        Self {
            current_index: format!("{id}_1"),
            revision_index: format!("{id}_1_{revision}_1"),
            time_index: format!("{id}_1_{time}_1_{revision}_1"),
            id,
            revision,
            time,
            deleted,
            change,
            retry,
            max_time: None,
        }
    }

    /// Returns the names of the fields that describe a change.
    pub(crate) fn change_fields(&self) -> impl Iterator<Item = &str> {
        self.change.iter().map(FieldName::as_str)
    }

    /// Returns the fields that the pattern writes, besides the id.
    pub(crate) fn own_fields(&self) -> [&FieldName; 3] {
        [&self.revision, &self.time, &self.deleted]
    }

    /// Returns the settings as the catalog stores them.
    pub(crate) fn stored_form(&self, revisions: &str) -> Document {
        let mut stored = doc! {
            "id": self.id.as_str(),
            "revision": self.revision.as_str(),
            "time": self.time.as_str(),
            "deleted": self.deleted.as_str(),
            "revisions_collection": revisions,
        };
        if !self.change.is_empty() {
            let fields: Vec<&str> = self.change_fields().collect();
            stored.insert("change_fields", fields);
        }
        stored
    }

    /// Returns the settings that name a field of every revision.
    pub(crate) fn fields_of_revision(&self) -> Vec<(&'static str, &str)> {
        vec![
            ("id", self.id.as_str()),
            ("revision", self.revision.as_str()),
            ("time", self.time.as_str()),
        ]
    }

    /// Returns the index of the current documents.
    pub(crate) fn current_indexes(&self) -> Vec<PlannedIndex> {
        let keys = doc! { self.id.as_str(): 1 };
        vec![PlannedIndex::new(&self.current_index, keys).unique()]
    }

    /// Returns the indexes of the revisions.
    pub(crate) fn revisions_indexes(&self) -> Vec<PlannedIndex> {
        let (id, revision) = (self.id.as_str(), self.revision.as_str());
        let by_revision = doc! { id: 1, revision: 1 };
        let by_time = doc! { id: 1, self.time.as_str(): 1, revision: 1 };
        vec![
            PlannedIndex::new(&self.revision_index, by_revision).unique(),
            PlannedIndex::new(&self.time_index, by_time),
        ]
    }
}

#[cfg(test)]
impl Settings {
    /// Those of the manual.
    pub(crate) fn example() -> Self {
        let fields = ["policyId", "revision", "dateSet", "deleted"];
        let fields = fields.map(|name| FieldName::new(name).expect("a plain name"));
        Self::new(fields, Vec::new(), RetryPolicy::default())
    }

    /// The same with `changedBy` and `reason`.
    pub(crate) fn with_change_fields() -> Self {
        let change = ["changedBy", "reason"].map(|name| FieldName::new(name).expect("a plain name"));
        Self {
            change: change.into(),
            ..Self::example()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_indexes_are_those_of_the_shell() {
        let settings = Settings::example();
        let current = PlannedIndex::new("policyId_1", doc! { "policyId": 1 }).unique();
        assert_eq!(settings.current_indexes(), [current]);
        let indexes = settings.revisions_indexes();
        let names: Vec<&str> = indexes.iter().map(|index| index.name.as_str()).collect();
        assert_eq!(names, ["policyId_1_revision_1", "policyId_1_dateSet_1_revision_1"]);
    }
}
