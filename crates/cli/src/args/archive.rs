//! The options of the archive.

use super::{Create, DryRun, Pace};
use crate::shard::ShardOptions;

#[derive(Debug, clap::Args)]
pub(crate) struct Archive {
    #[command(flatten)]
    pub(crate) settings: ArchiveSettings,
    #[command(subcommand)]
    pub(crate) verb: ArchiveVerb,
}

/// The collections of an archive, and what it moves.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Settings of the pattern")]
pub(crate) struct ArchiveSettings {
    /// The collection with the documents.
    #[arg(long, value_name = "NAME")]
    pub(crate) collection: String,
    /// The collection of the archived documents, in the same database unless another is named.
    #[arg(long, value_name = "NAME")]
    pub(crate) archive: String,
    /// The database of the archive, if it is another one.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) archive_db: Option<String>,
    /// The field with the time of a document, a date.
    #[arg(long, value_name = "FIELD")]
    pub(crate) age: String,
    /// Keeps the documents that match a filter, as MongoDB Extended JSON, such as {"retentionPolicy": "permanent"}.
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) keep: Option<String>,
    /// Keeps the newest of the old documents with the same value in a field: for the revisions of a history.
    #[arg(long, value_name = "FIELD")]
    pub(crate) keep_newest_by: Option<String>,
    /// Moves the documents of another collection whose field has the id of a document with it. Can be repeated.
    #[arg(long, num_args = 3, value_names = ["NAME", "ARCHIVE", "FIELD"])]
    pub(crate) related: Vec<String>,
    /// The field with the id that related documents have.
    #[arg(long, value_name = "FIELD", default_value = "_id")]
    pub(crate) id: String,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ArchiveVerb {
    /// Counts the documents of both collections and those that run would move, and shows the oldest of these
    Status(OlderThan),
    /// Prints the commands that run would send, for the first chunk
    Plan(OlderThan),
    /// Moves the old documents to the archive
    Run {
        #[command(flatten)]
        older_than: OlderThan,
        /// Replaces an archived document by one that was inserted again under its _id.
        #[arg(long)]
        replace_archived: bool,
        #[command(flatten)]
        pace: ArchivePace,
    },
    /// Moves the archived documents that match a filter back
    Restore {
        /// The filter, as MongoDB Extended JSON; {} restores everything.
        #[arg(long = "where", value_name = "FILTER")]
        filter: String,
        #[command(flatten)]
        pace: ArchivePace,
    },
    /// Deletes archived documents
    Delete {
        #[command(flatten)]
        older_than: OlderThan,
        #[command(flatten)]
        pace: ArchivePace,
    },
    /// Finds documents that are in both collections, ages that are not dates, and related documents without theirs
    Verify,
    /// Shows the indexes that the pattern needs
    Indexes(Create),
    /// Shards both collections on a sharded cluster, and creates the indexes
    Shard(ShardOptions),
}

/// The documents that a command takes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct OlderThan {
    /// The age of the documents, in days: those that are older.
    #[arg(long, value_name = "DAYS")]
    pub(crate) older_than: u32,
}

/// The pace of a move.
#[derive(Debug, clap::Args)]
pub(crate) struct ArchivePace {
    #[command(flatten)]
    pub(crate) pace: Pace,
    #[command(flatten)]
    pub(crate) dry_run: DryRun,
}
