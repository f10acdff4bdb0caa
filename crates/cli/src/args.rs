//! The command line.

mod archive;
mod history;
mod options;
mod reference;
mod subset;
mod trash;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use self::archive::{Archive, ArchivePace, ArchiveVerb, OlderThan, Place};
pub(crate) use self::history::{History, HistoryMigration, HistoryVerb, LogOptions, PruneOptions, ShowOptions};
pub(crate) use self::options::{Create, DryRun, Listing, Pace, Sample, Setup};
pub(crate) use self::reference::{
    OnMissing, Reference, ReferenceMigration, ReferenceRepair, ReferenceSample, ReferenceVerb,
};
pub(crate) use self::subset::{Subset, SubsetForm, SubsetMigration, SubsetVerb};
pub(crate) use self::trash::{Trash, TrashVerb};
use crate::confirm::Confirmation;
use crate::connection::Connection;
use crate::document_settings::SchemaSettings;
use crate::profile::FILE;
use crate::selection::Selection;
use crate::settings::{BucketSettings, EmbeddedSettings, OutlierSettings};

/// Shows what a database has, and analyzes, migrates, verifies and repairs MongoDB collections of the bucket, outlier,
/// subset, embedded, history, reference, archive, trash and schema patterns. `status` also shows those of intervals and
/// counters, which only programs write.
///
/// Exit codes: 0 success, 1 findings in the data, 2 an invalid command, 3 the server is unreachable or refuses, 130
/// stopped by Ctrl-C, 143 by SIGTERM. A stopped migration or repair resumes when the command is run again.
#[derive(Debug, Parser)]
#[command(name = "mongo-patterns", version, max_term_width = 80, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// The database. By default the one in the profile or in the connection string.
    #[arg(long, global = true, help_heading = "Options", value_name = "NAME")]
    pub(crate) db: Option<String>,
    /// The file with the settings. [default: mongo-patterns.toml, if it exists]
    #[arg(long, global = true, help_heading = "Options", value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Prints one JSON object per line for each finding, and one for the summary.
    #[arg(long, global = true, help_heading = "Options")]
    pub(crate) json: bool,
    /// Prints no progress.
    #[arg(long, short, global = true, help_heading = "Options")]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The history of a key in pages, one document per page
    Bucket(Bucket),
    /// Arrays with a threshold; the rest of a few long ones in a second collection
    Outlier(Outlier),
    /// The first children in their parent, all of them in a second collection
    Subset(Subset),
    /// A few children in the document of their parent
    Embedded(Embedded),
    /// Current documents, and all of their revisions in a second collection
    History(History),
    /// Documents with copies of fields of the documents that they refer to
    Reference(Reference),
    /// Old documents in a second collection
    Archive(Archive),
    /// Deleted documents in a second collection
    Trash(Trash),
    /// Writes a profile with the settings of the catalog, or from a sample of a collection
    Init(InitOptions),
    /// Shows what the database has, and what needs attention, from its catalog
    Status(StatusOptions),
    /// Deletes the record of a migration; `status` shows them
    Migrations {
        #[command(subcommand)]
        verb: MigrationsVerb,
    },
    /// Documents of several versions, and the steps that a service runs at its start
    Schema {
        #[command(subcommand)]
        verb: SchemaVerb,
    },
    /// Writes shell completions to standard output
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

/// What the status shows.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct StatusOptions {
    /// Verifies each collection first, and counts up to LIMIT findings of each. The catalog keeps the outcome, if the user may
    /// write it.
    #[arg(long, value_name = "LIMIT", num_args = 0..=1, default_missing_value = "1000", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) verify: Option<u64>,
}

/// What is written, and the file to write or to add to.
#[derive(clap::Args, Debug)]
pub(crate) struct InitOptions {
    /// The collection. By default all that the catalog has.
    #[arg(value_name = "COLLECTION")]
    pub(crate) collection: Option<String>,
    /// The file to write; - is standard output.
    #[arg(long, value_name = "FILE", default_value = FILE)]
    pub(crate) out: PathBuf,
    /// Replaces the file, if it exists. By default the settings that it does not have are added to it.
    #[arg(long)]
    pub(crate) force: bool,
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
    /// Shows how the items of the flat collection, or of the buckets, are distributed over keys, and recommends a pattern
    Analyze(Sample),
    /// Prints every command that migrate would send
    Plan(BucketMigration),
    /// Migrates the flat collection to buckets, on the server
    Migrate {
        #[command(flatten)]
        options: BucketMigration,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Checks the buckets and prints findings
    Verify(Listing),
    /// Repairs the findings of verify
    Repair(DryRun),
    #[command(flatten)]
    Setup(Setup),
    /// Migrates a live collection to the page size of --page-size
    Resize {
        /// The old page size. [default: that of the catalog]
        #[arg(long, value_name = "ITEMS")]
        from: Option<u32>,
        /// The most keys per second.
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
        rate: Option<u64>,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Computes the sums, extremes and counts of --sum, --min, --max, --count-by and --first-and-last in all buckets
    RefreshFigures,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MigrationsVerb {
    /// Deletes the record of a migration that is not running, and no data
    Forget {
        /// The collection that the migration writes.
        collection: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemaVerb {
    /// Records that a step was applied by hand, so that no instance runs it
    Mark(Step),
    /// Removes a step from the record, so that the next instance runs it again
    Unmark(Step),
    /// Ends the lease of an instance that is gone, so that the next one runs the steps at once
    ReleaseLease {
        /// The name of the list.
        #[arg(long, value_name = "NAME", default_value = "default")]
        list: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Prints the commands that migrate would send, for the first chunk
    Plan(Versioned),
    /// Converts the documents of older versions by the steps, on the server
    Migrate {
        #[command(flatten)]
        versioned: Versioned,
        #[command(flatten)]
        pace: Pace,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Checks the versions of the documents and prints findings
    Verify(Versioned),
    /// Shows the index that the pattern needs
    Indexes {
        #[command(flatten)]
        versioned: Versioned,
        #[command(flatten)]
        create: Create,
    },
}

/// A step of a service.
#[derive(Debug, clap::Args)]
pub(crate) struct Step {
    /// The name of the step.
    #[arg(value_name = "STEP")]
    pub(crate) name: String,
    /// The name of the list.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) list: String,
    #[command(flatten)]
    pub(crate) confirmation: Confirmation,
}

/// A collection with documents of several versions.
#[derive(Debug, clap::Args)]
pub(crate) struct Versioned {
    #[command(flatten)]
    pub(crate) settings: SchemaSettings,
    /// The version that the first step converts; without steps, the newest version.
    #[arg(long, value_name = "VERSION", default_value_t = 1)]
    pub(crate) from: u32,
    /// A step to the next version, as the stages of an update in MongoDB Extended JSON, such as [{"$set": {"name": "$title"}},
    /// {"$unset": "title"}]. Several steps follow each other.
    #[arg(long, value_name = "STAGES")]
    pub(crate) step: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BucketMigration {
    /// Migrates from the buckets to the flat collection.
    #[arg(long, conflicts_with_all = ["filter", "skip_invalid"])]
    pub(crate) back: bool,
    /// Accepts a target with documents, which must belong to other keys.
    #[arg(long)]
    pub(crate) allow_non_empty_target: bool,
    /// The approximate number of items in a chunk.
    #[arg(long, value_name = "ITEMS", default_value_t = 100_000)]
    pub(crate) chunk: u64,
    /// Creates an index on the key of the flat collection, if there is none: chunks need it.
    #[arg(long, conflicts_with_all = ["back", "no_index"])]
    pub(crate) create_index: bool,
    /// Migrates without that index, by one command for all items, which does not resume.
    #[arg(long, conflicts_with_all = ["back", "rate"])]
    pub(crate) no_index: bool,
    #[command(flatten)]
    pub(crate) selection: Selection,
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
    /// Shows the lengths of the lists, and the effect of each threshold
    Analyze(Sample),
    /// Prints every command that migrate would send, for the first 100 documents
    Plan(Selection),
    /// Splits long arrays, and applies a new threshold and cap to all documents
    Migrate {
        #[command(flatten)]
        selection: Selection,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Checks documents and overflow documents, and prints findings
    Verify(Listing),
    /// Repairs the findings of verify
    Repair {
        #[command(flatten)]
        options: DryRun,
        /// Deletes overflow documents that belong to no document, with their elements. Read the output of --dry-run first.
        #[arg(long)]
        delete_orphans: bool,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    #[command(flatten)]
    Setup(Setup),
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
    /// Shows how the children are distributed over parents, and recommends a pattern
    Analyze(Sample),
    /// Prints every command that migrate would send
    Plan(EmbeddedMigration),
    /// Migrates referencing documents into their parents, on the server
    Migrate {
        #[command(flatten)]
        options: EmbeddedMigration,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Checks the parents, finds documents that refer to no parent, and prints findings
    Verify(Listing),
    /// Prints what to correct by hand: this pattern has no automatic repair
    Repair(DryRun),
    #[command(flatten)]
    Setup(Setup),
}

#[derive(Debug, clap::Args)]
pub(crate) struct EmbeddedMigration {
    /// The number of parents in a chunk.
    #[arg(long, value_name = "PARENTS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) chunk: u64,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_valid() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_help_names_all_patterns() {
        let help = Args::command().render_long_help().to_string();
        for pattern in crate::profile::PATTERNS.iter().chain(&["intervals", "counters"]) {
            assert!(help.contains(pattern), "{pattern}");
        }
    }
}
