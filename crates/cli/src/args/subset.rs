//! The commands of the subset pattern.

use clap::Subcommand;

use super::options::{DryRun, Listing, Sample, Setup};
use crate::confirm::Confirmation;
use crate::selection::Selection;
use crate::settings::SubsetSettings;

#[derive(Debug, clap::Args)]
pub(crate) struct Subset {
    #[command(flatten)]
    pub(crate) settings: SubsetSettings,
    #[command(subcommand)]
    pub(crate) verb: SubsetVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SubsetVerb {
    /// Shows how many children parents have, and the effect of each subset size
    Analyze(Sample),
    /// Prints every command that migrate would send
    Plan(SubsetMigration),
    /// Migrates parents and children to the pattern, on the server
    Migrate {
        #[command(flatten)]
        options: SubsetMigration,
        #[command(flatten)]
        dry_run: DryRun,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Finds subsets that are not the first children, and children without a parent
    Verify(Listing),
    /// Repairs the findings of verify
    Repair(DryRun),
    #[command(flatten)]
    Setup(Setup),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SubsetMigration {
    /// The current form of the data.
    #[arg(long, value_enum, value_name = "FORM")]
    pub(crate) from: SubsetForm,
    /// With --from embedded: accepts a collection of children that has documents.
    #[arg(long)]
    pub(crate) allow_non_empty_target: bool,
    /// The number of parents in a chunk, or about the number of children with --from embedded. [default: 10000, or
    /// 100000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) chunk: Option<u64>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// With --from collection: discards embedded children that are not in the collection and that no repository
    /// embedded.
    #[arg(long)]
    pub(crate) discard_embedded: bool,
    /// With --from settings: the old order, if an interrupted migration to another order resumes.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) old_order: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SubsetForm {
    /// All children are embedded in their parents
    Embedded,
    /// All children are in their collection; subsets are missing or maintained by another program
    Collection,
    /// The settings of the catalog, to another order, size, other embedded fields, further subsets or figures
    Settings,
}

impl SubsetForm {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Collection => "collection",
            Self::Settings => "settings",
        }
    }
}
