//! The commands of the reference pattern.

use clap::Subcommand;

use super::options::{DryRun, Listing, Sample, Setup};
use crate::confirm::Confirmation;
use crate::selection::Selection;
use crate::settings::ReferenceSettings;

#[derive(Debug, clap::Args)]
pub(crate) struct Reference {
    #[command(flatten)]
    pub(crate) settings: ReferenceSettings,
    #[command(subcommand)]
    pub(crate) verb: ReferenceVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReferenceVerb {
    /// Shows how the references are distributed over sources, the state of the copies, and the cost of a rename
    Analyze(ReferenceSample),
    /// Prints every command that migrate would send
    Plan(ReferenceMigration),
    /// Migrates ids of sources to references with copies, on the server
    Migrate {
        #[command(flatten)]
        options: ReferenceMigration,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Finds copies that are outdated or differ from their source, and references without a source
    Verify(Listing),
    /// Repairs the findings of verify
    Repair(ReferenceRepair),
    #[command(flatten)]
    Setup(Setup),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReferenceSample {
    #[command(flatten)]
    pub(crate) sample: Sample,
    /// The field with the ids of a reference, if they are in another one: reference=field, such as
    /// customer=customerId. Separate several by commas.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) from_field: Option<Vec<String>>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReferenceMigration {
    /// The field with the ids of a reference, if they are in another one, which is removed: reference=field, such as
    /// customer=customerId. Separate several by commas.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) from_field: Option<Vec<String>>,
    /// The number of documents in a chunk.
    #[arg(long, value_name = "DOCUMENTS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) chunk: u64,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ReferenceRepair {
    #[command(flatten)]
    pub(crate) options: DryRun,
    /// Repairs references without a source. Read the output of --dry-run first. [default: they stay as they are]
    #[arg(long, value_enum, value_name = "RULE")]
    pub(crate) on_missing: Option<OnMissing>,
    #[command(flatten)]
    pub(crate) confirmation: Confirmation,
}

/// What happens to references without a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnMissing {
    /// The copies stay, with deleted: true
    Keep,
    /// The references are removed
    Clear,
}
