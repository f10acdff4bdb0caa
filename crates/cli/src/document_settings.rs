//! The settings of the patterns that manage whole documents: archive, schema and trash.

use clap::Args;
use serde::{Deserialize, Serialize};

/// The collections of an archive, and what it moves.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Settings of the pattern")]
#[serde(deny_unknown_fields)]
pub(crate) struct ArchiveSettings {
    /// The collection with the documents.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    /// The collection of the archived documents, in the same database unless another is named.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) archive: Option<String>,
    /// The database of the archive, if it differs.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) archive_db: Option<String>,
    /// The field with the time of a document, a date.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) age: Option<String>,
    /// Keeps the documents that match a filter, as MongoDB Extended JSON, such as {"retentionPolicy": "permanent"}; an
    /// empty text keeps none.
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) keep: Option<String>,
    /// Keeps the newest of the old documents with the same value in a field: for the revisions of a history. An empty
    /// text keeps none.
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) keep_newest_by: Option<String>,
    /// Moves the documents of another collection whose field has the id of a document with it. Can be repeated.
    #[arg(long, global = true, num_args = 3, value_names = ["NAME", "ARCHIVE", "FIELD"])]
    pub(crate) related: Option<Vec<String>>,
    /// The field with the id that related documents have. [default: _id]
    #[arg(long, global = true, value_name = "FIELD")]
    pub(crate) id: Option<String>,
}

/// A collection with documents of several versions.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Settings of the pattern")]
#[serde(deny_unknown_fields)]
pub(crate) struct SchemaSettings {
    /// The collection of the documents.
    pub(crate) collection: Option<String>,
    /// The field with the version. [default: schemaVersion]
    #[arg(long, value_name = "FIELD")]
    pub(crate) version_field: Option<String>,
}

/// The collections of a trash.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[command(next_help_heading = "Settings of the pattern")]
#[serde(deny_unknown_fields)]
pub(crate) struct TrashSettings {
    /// The collection with the documents.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    /// The collection of the deleted documents, in the same database unless another is named.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) trash: Option<String>,
    /// The database of the trash, if it differs.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) trash_db: Option<String>,
    /// The server removes an entry this many milliseconds after the deletion. [default: never]
    #[arg(long, global = true, value_name = "MILLISECONDS")]
    pub(crate) expires_after_ms: Option<u64>,
    /// Deletes the documents of another collection whose field has the _id of a document with it. Can be repeated.
    #[arg(long, global = true, num_args = 2, value_names = ["NAME", "FIELD"])]
    pub(crate) related: Option<Vec<String>>,
}
