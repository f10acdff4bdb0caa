//! What commands write, and what to do after they were stopped.

use super::{
    Archive, ArchiveVerb, Bucket, BucketVerb, Command, DryRun, Embedded, EmbeddedVerb, History, HistoryVerb,
    MigrationsVerb, Outlier, OutlierVerb, Reference, ReferenceRepair, ReferenceVerb, Subset, SubsetVerb,
};

impl Command {
    /// Returns what to do after the command was stopped.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            Self::Migrations {
                verb: MigrationsVerb::Forget { .. },
            } => "the record is deleted or not: run `status`",
            _ if self.writes() => "completed work is kept: run the command again to resume",
            _ => "nothing was changed",
        }
    }

    /// Returns whether it writes to the database.
    fn writes(&self) -> bool {
        let is_live = |dry_run: &DryRun| !dry_run.dry_run;
        match self {
            Self::Bucket(Bucket { verb, .. }) => match verb {
                BucketVerb::Migrate { dry_run, .. }
                | BucketVerb::Resize { dry_run, .. }
                | BucketVerb::Repair(dry_run) => is_live(dry_run),
                BucketVerb::Setup(setup) => setup.writes(),
                BucketVerb::RefreshFigures => true,
                BucketVerb::Analyze(_) | BucketVerb::Plan(_) | BucketVerb::Verify(_) => false,
            },
            Self::Archive(Archive { verb, .. }) => match verb {
                ArchiveVerb::Run { pace, .. }
                | ArchiveVerb::Restore { pace, .. }
                | ArchiveVerb::Delete { pace, .. } => is_live(&pace.dry_run),
                ArchiveVerb::Indexes(create) => create.create,
                ArchiveVerb::Shard(options) => !options.plan,
                ArchiveVerb::Plan(_) | ArchiveVerb::Verify => false,
            },
            Self::Outlier(Outlier { verb, .. }) => match verb {
                OutlierVerb::Migrate { dry_run, .. } | OutlierVerb::Repair { options: dry_run, .. } => is_live(dry_run),
                OutlierVerb::Setup(setup) => setup.writes(),
                OutlierVerb::Analyze(_) | OutlierVerb::Plan(_) | OutlierVerb::Verify(_) => false,
            },
            Self::Subset(Subset { verb, .. }) => match verb {
                SubsetVerb::Migrate { dry_run, .. } | SubsetVerb::Repair(dry_run) => is_live(dry_run),
                SubsetVerb::Setup(setup) => setup.writes(),
                SubsetVerb::Analyze(_) | SubsetVerb::Plan(_) | SubsetVerb::Verify(_) => false,
            },
            Self::Embedded(Embedded { verb, .. }) => match verb {
                EmbeddedVerb::Migrate { dry_run, .. } => is_live(dry_run),
                EmbeddedVerb::Setup(setup) => setup.writes(),
                EmbeddedVerb::Analyze(_)
                | EmbeddedVerb::Plan(_)
                | EmbeddedVerb::Verify(_)
                | EmbeddedVerb::Repair(_) => false,
            },
            Self::History(History { verb, .. }) => match verb {
                HistoryVerb::Migrate { dry_run, .. } | HistoryVerb::Repair(dry_run) => is_live(dry_run),
                HistoryVerb::Setup(setup) => setup.writes(),
                HistoryVerb::Analyze
                | HistoryVerb::Plan(_)
                | HistoryVerb::Verify(_)
                | HistoryVerb::Log(_)
                | HistoryVerb::Show(_)
                | HistoryVerb::Diff { .. } => false,
            },
            Self::Reference(Reference { verb, .. }) => match verb {
                ReferenceVerb::Migrate { dry_run, .. }
                | ReferenceVerb::Repair(ReferenceRepair { options: dry_run, .. }) => is_live(dry_run),
                ReferenceVerb::Setup(setup) => setup.writes(),
                ReferenceVerb::Analyze(_) | ReferenceVerb::Plan(_) | ReferenceVerb::Verify(_) => false,
            },
            Self::Migrations { .. } => true,
            Self::Init(_) | Self::Status(_) | Self::Schema { .. } | Self::Completions { .. } | Self::Man { .. } => {
                false
            }
        }
    }
}
