//! The options of the archive.

use super::{Create, DryRun, Pace};
use crate::document_settings::ArchiveSettings;
use crate::shard::ShardOptions;

#[derive(Debug, clap::Args)]
pub(crate) struct Archive {
    #[command(flatten)]
    pub(crate) settings: ArchiveSettings,
    #[command(subcommand)]
    pub(crate) verb: ArchiveVerb,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ArchiveVerb {
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
