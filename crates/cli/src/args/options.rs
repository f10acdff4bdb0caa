//! Options of the commands of several patterns.

use crate::migrate::Mode;

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct DryRun {
    /// Prints what it would do, and writes nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl DryRun {
    /// Returns what is done with a migration.
    pub(crate) fn mode(self) -> Mode {
        if self.dry_run { Mode::DryRun } else { Mode::Run }
    }
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Create {
    /// Creates the missing indexes, and stores the settings in the catalog. Never drops an index.
    #[arg(long)]
    pub(crate) create: bool,
    /// Replaces the settings in the catalog, if they are wrong.
    #[arg(long, requires = "create")]
    pub(crate) replace_settings: bool,
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Sample {
    /// Reads this number of documents, chosen at random.
    #[arg(long, value_name = "DOCUMENTS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sample: Option<u32>,
}
