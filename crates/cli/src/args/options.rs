//! Options of the commands of several patterns.

use clap::Subcommand;
use mongo_patterns_core::migration::MigrateOptions;

use crate::migrate::Mode;
use crate::shard::ShardOptions;

/// The commands of all patterns that set up their collections.
#[derive(Debug, Subcommand)]
pub(crate) enum Setup {
    /// Shows the indexes that the pattern needs
    Indexes(Create),
    /// Shards the collections on a sharded cluster, and creates the indexes
    Shard(ShardOptions),
}

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

/// The pace of a migration.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Pace {
    /// The most documents in a chunk.
    #[arg(long, value_name = "DOCUMENTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) chunk: Option<u64>,
    /// The most documents per second, by pauses between chunks.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate: Option<u64>,
}

impl Pace {
    /// Sets the options of a migration.
    pub(crate) fn set(self, options: &mut MigrateOptions) {
        (options.chunk, options.rate) = (self.chunk, self.rate);
    }
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Listing {
    /// Lists each finding, also the many that have one cause, such as the stale copies of one source.
    #[arg(long)]
    pub(crate) all: bool,
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
