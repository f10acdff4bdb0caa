//! The recipes, and what their documents show.

use serde::{Deserialize, Serialize};

/// Who describes a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Source {
    Manual,
    /// The manual, by a program that reads the array, adds to it, and writes it back.
    WriteBack,
    /// The manual, by a program that runs the commands of an operation in a transaction.
    InTransactions,
    /// The manual with its filter repaired, in a transaction.
    Repaired,
    AgentSkills,
    /// The agent skills, by a job that takes a batch of documents at a time.
    InBatches,
    /// The agent skills, converting by one `updateMany`.
    ByUpdateMany,
    Ours,
}

impl Source {
    pub(super) const ALL: [Self; 8] = [
        Self::Manual,
        Self::WriteBack,
        Self::InTransactions,
        Self::Repaired,
        Self::AgentSkills,
        Self::InBatches,
        Self::ByUpdateMany,
        Self::Ours,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::WriteBack => "manual, array written back",
            Self::InTransactions => "manual, in transactions",
            Self::Repaired => "manual, repaired, in transactions",
            Self::AgentSkills => "agent skills",
            Self::InBatches => "agent skills, in batches",
            Self::ByUpdateMany => "agent skills, `updateMany`",
            Self::Ours => "mongo-patterns",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Pattern {
    Bucket,
    Outlier,
    Subset,
    Computed,
    Embedded,
    Attribute,
    History,
    Interval,
    Reference,
    Schema,
    Archive,
    Counters,
}

impl Pattern {
    pub(super) const ALL: [Self; 12] = [
        Self::Bucket,
        Self::Outlier,
        Self::Subset,
        Self::Computed,
        Self::Embedded,
        Self::Attribute,
        Self::History,
        Self::Interval,
        Self::Reference,
        Self::Schema,
        Self::Archive,
        Self::Counters,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::Outlier => "outlier",
            Self::Subset => "subset",
            Self::Computed => "computed fields",
            Self::Embedded => "embedded",
            Self::Attribute => "attributes",
            Self::History => "history",
            Self::Interval => "intervals",
            Self::Reference => "reference",
            Self::Schema => "schema versions",
            Self::Archive => "archive",
            Self::Counters => "counters",
        }
    }

    /// Returns whether the pattern has this recipe. Where the manual has no commands for an array, a
    /// program can also write it back. The manual computes fields by a job, and not with each write. It has no commands that
    /// count in several processes.
    pub(super) fn has(self, source: Source) -> bool {
        match source {
            Source::Manual => !matches!(self, Self::Computed | Self::Counters),
            Source::WriteBack => matches!(self, Self::Outlier | Self::Embedded | Self::Attribute),
            Source::InTransactions => matches!(self, Self::Reference),
            Source::Repaired => matches!(self, Self::Interval),
            // They have no commands that write in these patterns.
            Source::AgentSkills => !matches!(self, Self::Reference | Self::Attribute | Self::Interval),
            Source::InBatches => matches!(self, Self::Schema | Self::Archive),
            Source::ByUpdateMany => matches!(self, Self::Schema),
            Source::Ours => true,
        }
    }
}

/// What the stored documents show. `None` where it does not apply to the pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hazards {
    /// Acknowledged, and not stored.
    pub(super) lost: u64,
    /// Stored more than once.
    pub(super) doubled: u64,
    /// Documents whose copies or totals contradict the data.
    pub(super) stale: Option<u64>,
    /// Partial pages and overflow documents before the last one, missing positions, and missing revisions.
    pub(super) gaps: Option<u64>,
    /// Documents that exceed a bound, compete for a position, or that no reader finds.
    pub(super) wrong: u64,
}

impl Hazards {
    pub(super) fn is_none(self) -> bool {
        self.lost + self.doubled + self.stale.unwrap_or(0) + self.gaps.unwrap_or(0) + self.wrong == 0
    }
}
