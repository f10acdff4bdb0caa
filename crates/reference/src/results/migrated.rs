//! The results of the migrations.

use mongo_patterns_core::PlannedCommand;
use mongo_patterns_core::migration::number;
use mongodb::bson::Document;

/// The plan of a migration: its size, and every command that it would send.
///
/// See [`MigrateFromReferences::plan`](crate::action::MigrateFromReferences::plan) and
/// [`MigrateToReferences::plan`](crate::action::MigrateToReferences::plan).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct MigrationPlan {
    /// The number of documents that the migration would change.
    pub documents: u64,
    /// The documents that it would skip because they are invalid.
    pub skipped: InvalidDocuments,
    /// The commands, in order, for the database of the collections.
    ///
    /// Two things are unknown in advance. A migration sends further commands for sources and documents that other clients
    /// write concurrently. And the driver reads each cursor to its end by `getMore`.
    pub commands: Vec<PlannedCommand>,
}

/// The result of a migration from references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigratedFromReferences {
    /// The number of documents that this call migrated.
    pub documents: u64,
    /// The documents that were skipped because they are invalid. None, unless you
    /// [skip](crate::action::MigrateFromReferences::skip_invalid) them.
    pub skipped: InvalidDocuments,
    /// The names of the created indexes.
    pub created_indexes: Vec<String>,
    /// Whether an earlier call of this migration did not finish, so that this one resumed it.
    pub resumed: bool,
}

/// The result of a migration to references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigratedToReferences {
    /// The number of documents that this call migrated.
    pub documents: u64,
    /// Whether an earlier call of this migration did not finish, so that this one resumed it.
    pub resumed: bool,
}

/// The documents that a migration from references cannot migrate, by reason. Each document counts once, with the first
/// reason that applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidDocuments {
    /// The field of an array of references has another value than an array.
    pub no_array: u64,
    /// A reference is null, an array, or of another type that an `_id` cannot have.
    pub not_an_id: u64,
    /// An array refers to one source twice.
    pub twice: u64,
    /// The reference field has another value than references, although the ids are in another field.
    pub other_value: u64,
    /// The reference field refers to other sources than the field of the ids.
    pub other_reference: u64,
    /// A reference is a DBRef.
    pub db_ref: u64,
    /// A reference is a document without an `_id`, such as one with the id in another field, and no source has it as its
    /// `_id`.
    pub without_id: u64,
    /// A source does not exist.
    pub source_missing: u64,
    /// The version of a source is not an integer from 0.
    pub source_version: u64,
    /// The document would exceed MongoDB's limit of 16 MiB.
    pub too_large: u64,
}

impl InvalidDocuments {
    /// Returns the number of all invalid documents.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, documents)| documents).sum()
    }

    /// Returns the reasons as they are listed, with the numbers of documents.
    #[must_use]
    pub fn by_reason(&self) -> [(&'static str, u64); 10] {
        [
            ("no_array", self.no_array),
            ("not_an_id", self.not_an_id),
            ("twice", self.twice),
            ("other_value", self.other_value),
            ("other_reference", self.other_reference),
            ("db_ref", self.db_ref),
            ("without_id", self.without_id),
            ("source_missing", self.source_missing),
            ("source_version", self.source_version),
            ("too_large", self.too_large),
        ]
    }

    pub(crate) fn of(found: &Document) -> Self {
        Self {
            no_array: number(found, "no_array"),
            not_an_id: number(found, "not_an_id"),
            twice: number(found, "twice"),
            other_value: number(found, "other_value"),
            other_reference: number(found, "other_reference"),
            db_ref: number(found, "db_ref"),
            without_id: number(found, "without_id"),
            source_missing: number(found, "source_missing"),
            source_version: number(found, "source_version"),
            too_large: number(found, "too_large"),
        }
    }
}
