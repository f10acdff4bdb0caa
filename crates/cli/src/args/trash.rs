//! The options of the trash.

use super::{DryRun, Listing, OlderThan, Pace, Setup};
use crate::confirm::Confirmation;
use crate::document_settings::TrashSettings;

#[derive(Debug, clap::Args)]
pub(crate) struct Trash {
    #[command(flatten)]
    pub(crate) settings: TrashSettings,
    #[command(subcommand)]
    pub(crate) verb: TrashVerb,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TrashVerb {
    /// Lists the deleted documents, the newest first
    List {
        /// The greatest number of entries.
        #[arg(long, value_name = "ENTRIES", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// The token of the next page, which the page before has printed.
        #[arg(long, value_name = "TOKEN")]
        after: Option<String>,
    },
    /// Moves a deleted document back, with its related documents
    Restore {
        /// The id of the document: MongoDB Extended JSON, such as 5 or {"$oid": ".."}; other text is a string.
        #[arg(value_name = "ID", allow_hyphen_values = true)]
        document: String,
    },
    /// Deletes old entries for good
    Empty {
        #[command(flatten)]
        older_than: OlderThan,
        #[command(flatten)]
        pace: Pace,
        #[command(flatten)]
        dry_run: DryRun,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Finds entries that cannot be restored, or are never deleted
    Verify(Listing),
    #[command(flatten)]
    Setup(Setup),
}
