//! The result of the migrations.

use mongo_patterns_core::InvalidDocuments;
use serde::Serialize;

/// The result of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Migrated {
    /// The number of documents that this call migrated.
    pub documents: u64,
    /// The documents that were [skipped](crate::action::MigrateFromReferences::skip_invalid) because they are invalid.
    pub skipped: InvalidDocuments,
    /// The names of the created indexes.
    pub created_indexes: Vec<String>,
    /// Whether an earlier call of this migration did not finish, so that this one resumed it.
    pub resumed: bool,
}
