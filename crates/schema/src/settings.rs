//! The checked settings of a repository.

use std::time::Duration;

use mongo_patterns_core::{FieldName, RetryPolicy};
use mongodb::bson::{Document, doc};

use crate::steps::Steps;

pub(crate) struct Settings {
    pub(crate) version: FieldName,
    pub(crate) steps: Steps,
    pub(crate) retry: RetryPolicy,
    /// The bound of the time of each command of a read.
    pub(crate) max_time: Option<Duration>,
}

impl Settings {
    /// Returns the settings of the stored form. Releases with other steps share it.
    pub(crate) fn stored_form(&self) -> Document {
        doc! { "version": self.version.as_str() }
    }
}
