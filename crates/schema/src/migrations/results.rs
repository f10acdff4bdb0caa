//! The results of the calls.

use mongodb::bson::{Bson, DateTime};
use serde::Serialize;

/// What a run did; returned by [`Migrations::run`](crate::Migrations::run).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Applied {
    /// The steps that this call has run, in their order.
    pub steps: Vec<String>,
    /// The applied steps that this list lacks: of a later release, or deleted from the list.
    pub unknown: Vec<String>,
}

/// What is applied and what is not; returned by [`Migrations::status`](super::Migrations::status).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// All applied steps, in the order in which they were applied.
    pub applied: Vec<AppliedStep>,
    /// The steps that [`run`](crate::Migrations::run) would run, in their order.
    pub pending: Vec<String>,
    /// The applied steps that this list does not have.
    pub unknown: Vec<String>,
    /// Since when an instance has been running steps, by the server's clock. `None` if none runs any.
    pub running_since: Option<DateTime>,
}

/// A step that was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AppliedStep {
    /// Its name.
    pub name: String,
    /// When it was recorded, by the server's clock.
    pub applied: DateTime,
}

impl AppliedStep {
    pub(crate) fn of(stored: &Bson) -> Option<Self> {
        let step = stored.as_document()?;
        Some(Self {
            name: step.get_str("name").ok()?.to_owned(),
            applied: *step.get_datetime("applied").ok()?,
        })
    }
}
