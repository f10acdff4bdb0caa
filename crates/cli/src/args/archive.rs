//! The options of the archive.

use clap::ValueEnum;
use mongo_patterns_archive::action::Keep;

use super::{Create, DryRun, Pace};
use crate::confirm::Confirmation;
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
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Finds documents that are in both collections, ages that are not dates, and related documents without theirs
    Verify,
    /// Deletes one of two documents with one _id: the older one by its age, or the one that is not to be kept
    Repair {
        /// Keeps the document there, whatever its age and its content are.
        #[arg(long, value_name = "PLACE")]
        keep_in: Option<Place>,
        #[command(flatten)]
        dry_run: DryRun,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Shows the indexes that the pattern needs
    Indexes(Create),
    /// Shards both collections on a sharded cluster, and creates the indexes
    Shard(ShardOptions),
}

/// Where a document is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Place {
    /// The archive.
    Archive,
    /// The collection.
    Collection,
}

impl From<Place> for Keep {
    fn from(place: Place) -> Self {
        match place {
            Place::Archive => Self::Archived,
            Place::Collection => Self::Current,
        }
    }
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
