//! The checked settings.

use std::time::Duration;

use mongo_patterns_core::index::PlannedIndex;
use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::{Document, doc};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The field with the id in a current document, which can be `_id`.
    pub(crate) id: FieldName,
    /// The field with the id of its document in a revision: never `_id`, because a revision has an `_id` of its own.
    pub(crate) document_id: FieldName,
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
    pub(crate) fn new(fields: [FieldName; 5], change: Vec<FieldName>, retry: RetryPolicy) -> Self {
        let [id, document_id, revision, time, deleted] = fields;
        Self {
            current_index: match id.as_str() {
                "_id" => "_id_".to_owned(),
                id => format!("{id}_1"),
            },
            revision_index: format!("{document_id}_1_{revision}_1"),
            time_index: format!("{document_id}_1_{time}_1_{revision}_1"),
            id,
            document_id,
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

    /// Returns whether the id of a document is its `_id`.
    pub(crate) fn is_by_id(&self) -> bool {
        self.id != self.document_id
    }

    /// Returns whether only revisions have the field.
    pub(crate) fn is_of_revisions(&self, field: &str) -> bool {
        self.is_by_id() && field == self.document_id.as_str()
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
        if self.is_by_id() {
            stored.insert("document_id", self.document_id.as_str());
        }
        if !self.change.is_empty() {
            let fields: Vec<&str> = self.change_fields().collect();
            stored.insert("change_fields", fields);
        }
        stored
    }

    /// Returns the settings that name a field of every revision.
    pub(crate) fn fields_of_revision(&self) -> Vec<(&'static str, &str)> {
        let id = if self.is_by_id() { "document_id" } else { "id" };
        vec![
            (id, self.document_id.as_str()),
            ("revision", self.revision.as_str()),
            ("time", self.time.as_str()),
        ]
    }

    /// Returns the index of the current documents, unless it is on `_id`.
    pub(crate) fn current_indexes(&self) -> Vec<PlannedIndex> {
        let index = PlannedIndex::new(&self.current_index, doc! { self.id.as_str(): 1 });
        vec![if self.is_by_id() { index } else { index.unique() }]
    }

    pub(crate) fn revisions_indexes(&self) -> Vec<PlannedIndex> {
        let (id, revision) = (self.document_id.as_str(), self.revision.as_str());
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
    /// The settings of the manual.
    pub(crate) fn example() -> Self {
        Self::with_names(["policyId", "policyId", "revision", "dateSet", "deleted"])
    }

    /// The settings of documents whose id is their `_id`.
    pub(crate) fn by_id() -> Self {
        Self::with_names(["_id", "documentId", "revision", "dateSet", "deleted"])
    }

    fn with_names(fields: [&str; 5]) -> Self {
        let fields = fields.map(|name| FieldName::of_element(name).expect("a plain name"));
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
        let settings = Settings::by_id();
        assert_eq!(
            settings.current_indexes(),
            [PlannedIndex::new("_id_", doc! { "_id": 1 })]
        );
        assert_eq!(settings.revision_index, "documentId_1_revision_1");
    }
}
