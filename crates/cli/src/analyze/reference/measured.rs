//! The references in one field, as they were counted.

use mongodb::Collection;
use mongodb::bson::{Bson, Document};

use crate::analyze::analysis::Analysis;
use crate::settings::ReferenceField;

/// What is analyzed.
pub(crate) struct Of<'a> {
    /// The collection of the references without a collection of their own.
    pub(crate) collection: &'a str,
    pub(crate) sources: Collection<Document>,
    /// The field of the version.
    pub(crate) version: &'a str,
    pub(crate) references: &'a [ReferenceField],
}

/// The references in one field.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) collection: String,
    pub(super) field: String,
    pub(super) copy: Vec<String>,
    pub(super) is_snapshot: bool,
    /// The sources by their number of references.
    pub(super) analysis: Analysis,
    /// The number of references whose source exists, each counted once.
    pub(super) sources_found: u64,
    /// The number of references with a copy, with an id alone, and of other values.
    pub(super) copies: u64,
    pub(super) ids: u64,
    pub(super) others: u64,
    /// The number of references without a source, and of copies that are older than their source.
    pub(super) dangling: u64,
    pub(super) stale: u64,
    /// The average bytes of a copy, and of a document.
    pub(super) copy_bytes: f64,
    pub(super) document_bytes: f64,
    /// The sum of the versions of the sources, once for each reference.
    pub(super) updates: u64,
    /// The source with the most references.
    pub(super) largest: Option<Bson>,
}

impl Measured {
    pub(super) fn references(&self) -> u64 {
        self.copies + self.ids
    }

    /// Returns the greatest number of references of a source.
    pub(super) fn most(&self) -> u64 {
        self.analysis.lengths.last().map_or(0, |sources| sources.length)
    }
}
