//! The commands of the history pattern.

use clap::Subcommand;

use super::options::{DryRun, Listing, Pace, Setup};
use crate::confirm::Confirmation;
use crate::settings::HistorySettings;

#[derive(Debug, clap::Args)]
pub(crate) struct History {
    #[command(flatten)]
    pub(crate) settings: HistorySettings,
    #[command(subcommand)]
    pub(crate) verb: HistoryVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HistoryVerb {
    /// Shows how many revisions the documents have, and what pruning them would delete
    Analyze,
    /// Prints every command that migrate would send
    Plan(HistoryMigration),
    /// Migrates documents and their revisions, or documents with embedded versions, on the server
    Migrate {
        #[command(flatten)]
        options: HistoryMigration,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Finds missing and different revisions
    Verify(Listing),
    /// Repairs the findings of verify
    Repair(DryRun),
    /// Deletes the oldest revisions of a document for good
    Prune(PruneOptions),
    #[command(flatten)]
    Setup(Setup),
    /// Lists the revisions of a document, the newest first
    Log(LogOptions),
    /// Prints a revision of a document, or the current document
    Show(ShowOptions),
    /// Prints the fields that differ between two revisions of a document
    Diff {
        /// The id of the document: MongoDB Extended JSON, such as 5 or {"$oid": ".."}; other text is a string.
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        document: String,
        /// The number of the first revision.
        from: u64,
        /// The number of the second revision.
        to: u64,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct HistoryMigration {
    /// The array field with the earlier versions of a document, from the oldest. By default the revisions are in their
    /// collection, or there are none.
    #[arg(long, value_name = "FIELD")]
    pub(crate) embedded_versions: Option<String>,
    #[command(flatten)]
    pub(crate) pace: Pace,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PruneOptions {
    /// The id of the document: MongoDB Extended JSON, such as 5 or {"$oid": ".."}; other text is a string.
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    pub(crate) document: String,
    /// Keeps the revisions that are needed to read the document as of this time, such as 2026-11-23T12:00:00Z, or later.
    #[arg(
        long,
        value_name = "TIME",
        required_unless_present = "keep_last",
        conflicts_with = "keep_last"
    )]
    pub(crate) before: Option<String>,
    /// Keeps this number of the newest revisions.
    #[arg(long, value_name = "REVISIONS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keep_last: Option<u64>,
    #[command(flatten)]
    pub(crate) dry_run: DryRun,
    #[command(flatten)]
    pub(crate) confirmation: Confirmation,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LogOptions {
    /// The id of the document: MongoDB Extended JSON, such as 5 or {"$oid": ".."}; other text is a string.
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    pub(crate) document: String,
    /// The greatest number of revisions.
    #[arg(long, value_name = "REVISIONS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Only revisions before this number, for the next page.
    #[arg(long, value_name = "REVISION")]
    pub(crate) before: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowOptions {
    /// The id of the document, and the number of a revision after an @, such as 5@3. Without a number the current
    /// document. Ids are MongoDB Extended JSON, such as 5 or {"$oid": ".."}; other text is a string.
    #[arg(value_name = "ID[@REVISION]", allow_hyphen_values = true)]
    pub(crate) document: String,
    /// The revision that the document had at this time, such as 2026-11-23T12:00:00Z. The whole text before it is the id.
    #[arg(long, value_name = "TIME")]
    pub(crate) as_of: Option<String>,
}
