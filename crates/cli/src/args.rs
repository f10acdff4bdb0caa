//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::connection::Connection;
use crate::init::InitOptions;
use crate::load::LoadOptions;
use crate::settings::{BucketSettings, EmbeddedSettings, OutlierSettings, SubsetSettings};

/// Looks at, moves, checks and mends MongoDB collections of the bucket, outlier, subset and embedded patterns.
///
/// Exit codes: 0 all is well, 1 something was found in the data, 2 the command cannot be, 3 the server cannot do it,
/// 130 stopped by Ctrl-C. A move or repair that was stopped goes on when the command is run again, and so does a load
/// with --item-id.
#[derive(Debug, Parser)]
#[command(name = "mongo-patterns", version, max_term_width = 80, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// The database. By default that of the profile, or of the connection string.
    #[arg(long, global = true, help_heading = "Options", value_name = "NAME")]
    pub(crate) db: Option<String>,
    /// The file with the settings. [default: mongo-patterns.toml, if there is one]
    #[arg(long, global = true, help_heading = "Options", value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// For machines: one JSON object a line for each finding, and one for the summary.
    #[arg(long, global = true, help_heading = "Options")]
    pub(crate) json: bool,
    /// No progress.
    #[arg(long, short, global = true, help_heading = "Options")]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The history of a key in pages, one document a page
    Bucket(Bucket),
    /// An array up to a threshold; the rest of the few long ones in a second collection
    Outlier(Outlier),
    /// The first few of a parent's children in it, all of them in a second collection
    Subset(Subset),
    /// The few children of a parent in its document
    Embedded(Embedded),
    /// Writes a profile by looking at a collection
    Init(InitOptions),
    /// Writes completions for a shell to standard output
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Writes the manual page to standard output, or those of all commands to a directory
    Man {
        /// The directory.
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Bucket {
    #[command(flatten)]
    pub(crate) settings: BucketSettings,
    #[command(subcommand)]
    pub(crate) verb: BucketVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BucketVerb {
    /// Says how the items of the flat collection are spread over keys, and what follows
    Analyze(Sample),
    /// Prints every command that migrate would send
    Plan(BucketMove),
    /// Moves the flat collection into buckets, on the server
    Migrate {
        #[command(flatten)]
        options: BucketMove,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Finds what is wrong with the buckets
    Verify,
    /// Mends what verify finds
    Repair(DryRun),
    /// Shows the indexes that the pattern relies on
    Indexes(Create),
    /// Appends items from a CSV file or newline-delimited JSON
    Load(LoadOptions),
}

#[derive(Debug, clap::Args)]
pub(crate) struct BucketMove {
    /// Moves from the buckets to the flat collection.
    #[arg(long)]
    pub(crate) back: bool,
    /// Moves also where the target has documents, which must be of other keys.
    #[arg(long)]
    pub(crate) allow_non_empty_target: bool,
    /// About how many items go at a time.
    #[arg(long, value_name = "ITEMS", default_value_t = 100_000)]
    pub(crate) chunk_items: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Outlier {
    #[command(flatten)]
    pub(crate) settings: OutlierSettings,
    #[command(subcommand)]
    pub(crate) verb: OutlierVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OutlierVerb {
    /// Says how long the lists are, and what each threshold would make of them
    Analyze(Sample),
    /// Prints every command that migrate would send
    Plan,
    /// Brings all documents into form: splits long arrays, for any threshold and cap
    Migrate(DryRun),
    /// Finds what is wrong with documents and extras
    Verify,
    /// Mends what verify finds
    Repair {
        #[command(flatten)]
        dry_run: DryRun,
        /// Deletes extras that belong to no document, with their elements.
        #[arg(long)]
        delete_orphans: bool,
    },
    /// Shows the indexes that the pattern relies on
    Indexes(Create),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Subset {
    #[command(flatten)]
    pub(crate) settings: SubsetSettings,
    #[command(subcommand)]
    pub(crate) verb: SubsetVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SubsetVerb {
    /// Says how many children parents have, and what subsets of each size would give
    Analyze(Sample),
    /// Prints every command that migrate would send
    Plan(SubsetMove),
    /// Brings parents and children into form, on the server
    Migrate {
        #[command(flatten)]
        options: SubsetMove,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Finds subsets that are not the first of the children, and children without a parent
    Verify,
    /// Mends what verify finds
    Repair(DryRun),
    /// Shows the indexes that the pattern relies on
    Indexes(Create),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SubsetMove {
    /// What there is now.
    #[arg(long, value_enum, value_name = "FORM")]
    pub(crate) from: SubsetForm,
    /// Of embedded children: moves also where their collection has some already.
    #[arg(long)]
    pub(crate) allow_non_empty_target: bool,
    /// Of embedded children: about how many go at a time. [default: 100000]
    #[arg(long, value_name = "CHILDREN", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) chunk_children: Option<u64>,
    /// Of a collection: gives up embedded children that are not in it, where no repository embedded them.
    #[arg(long)]
    pub(crate) discard_embedded: bool,
    /// Of settings: the order until now, where it changes.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) old_order: Option<Vec<String>>,
    /// Of settings: the size until now, where it changes.
    #[arg(long, value_name = "CHILDREN")]
    pub(crate) old_size: Option<u32>,
    /// Of settings: the embedded fields until now, where they change; * for all but _id and the parent's.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) old_embed: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SubsetForm {
    /// All children are embedded in their parents
    Embedded,
    /// All children are in their collection, and subsets are missing or were kept by hand
    Collection,
    /// Another order, other embedded fields or another size than now
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

impl SubsetMove {
    pub(crate) fn chunk_children(&self) -> u64 {
        self.chunk_children.unwrap_or(100_000)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Embedded {
    #[command(flatten)]
    pub(crate) settings: EmbeddedSettings,
    #[command(subcommand)]
    pub(crate) verb: EmbeddedVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EmbeddedVerb {
    /// Says how the children are spread over parents, and what follows
    Analyze(Sample),
    /// Prints every command that migrate would send
    Plan(EmbeddedMove),
    /// Moves children that are documents of their own into their parents, on the server
    Migrate {
        #[command(flatten)]
        options: EmbeddedMove,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Finds what is wrong with the parents, and documents that refer to none
    Verify,
    /// Says what must be mended by hand: nothing in this pattern can be mended without a guess
    Repair(DryRun),
    /// Shows the indexes that the pattern relies on: none
    Indexes(Create),
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct EmbeddedMove {
    /// Makes documents of their own of the children instead.
    #[arg(long)]
    pub(crate) back: bool,
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct DryRun {
    /// Says what it would do, and writes nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Create {
    /// Creates those that are missing. None is ever dropped.
    #[arg(long)]
    pub(crate) create: bool,
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Sample {
    /// Looks at so many documents, taken at random.
    #[arg(long, value_name = "DOCUMENTS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sample: Option<u32>,
}

impl Command {
    /// What to do after the command was stopped.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            Self::Bucket(Bucket {
                verb: BucketVerb::Load(options),
                ..
            }) if !options.is_dry_run() => {
                "items may be stored up to here: run it again only where --item-id is set, by which none is stored twice"
            }
            _ if self.writes() => "what is done stays, and the same command goes on from there",
            _ => "nothing was changed",
        }
    }

    /// Whether it writes to the database.
    fn writes(&self) -> bool {
        let wet = |dry_run: &DryRun| !dry_run.dry_run;
        match self {
            Self::Bucket(Bucket { verb, .. }) => match verb {
                BucketVerb::Migrate { dry_run, .. } | BucketVerb::Repair(dry_run) => wet(dry_run),
                BucketVerb::Indexes(create) => create.create,
                BucketVerb::Load(options) => !options.is_dry_run(),
                BucketVerb::Analyze(_) | BucketVerb::Plan(_) | BucketVerb::Verify => false,
            },
            Self::Outlier(Outlier { verb, .. }) => match verb {
                OutlierVerb::Migrate(dry_run) | OutlierVerb::Repair { dry_run, .. } => wet(dry_run),
                OutlierVerb::Indexes(create) => create.create,
                OutlierVerb::Analyze(_) | OutlierVerb::Plan | OutlierVerb::Verify => false,
            },
            Self::Subset(Subset { verb, .. }) => match verb {
                SubsetVerb::Migrate { dry_run, .. } | SubsetVerb::Repair(dry_run) => wet(dry_run),
                SubsetVerb::Indexes(create) => create.create,
                SubsetVerb::Analyze(_) | SubsetVerb::Plan(_) | SubsetVerb::Verify => false,
            },
            Self::Embedded(Embedded { verb, .. }) => match verb {
                EmbeddedVerb::Migrate { dry_run, .. } => wet(dry_run),
                EmbeddedVerb::Analyze(_)
                | EmbeddedVerb::Plan(_)
                | EmbeddedVerb::Verify
                | EmbeddedVerb::Repair(_)
                | EmbeddedVerb::Indexes(_) => false,
            },
            Self::Init(_) | Self::Completions { .. } | Self::Man { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }
}
