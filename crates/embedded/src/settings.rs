//! The checked settings of a repository.

use std::time::Duration;

use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::{Document, doc};

#[derive(Debug)]
pub(crate) struct Settings {
    /// The array of the parent.
    pub(crate) children: FieldName,
    /// The field of a child that identifies it in its parent.
    pub(crate) child_id: FieldName,
    pub(crate) max_children: u32,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
}

impl Settings {
    /// Returns the settings of the stored form.
    pub(crate) fn stored_form(&self) -> Document {
        doc! {
            "children": self.children.as_str(),
            "child_id": self.child_id.as_str(),
            "max_children": self.max_bson(),
        }
    }

    /// Returns the field of a parent that a subset repository manages, or whose migration to one has begun.
    pub(crate) fn version(&self) -> FieldName {
        self.children.version()
    }

    /// Returns the bound for filters and the validator.
    pub(crate) fn max_bson(&self) -> i32 {
        i32::try_from(self.max_children).unwrap_or(i32::MAX)
    }
}

#[cfg(any(test, fuzzing))]
impl Settings {
    /// Returns the settings of the manual's example, with at most five addresses.
    pub(crate) fn example() -> Self {
        Self {
            children: FieldName::new("addresses").expect("a plain name"),
            child_id: FieldName::of_element("id").expect("a plain name"),
            max_children: 5,
            retry: RetryPolicy::default(),
            max_time: None,
        }
    }
}
