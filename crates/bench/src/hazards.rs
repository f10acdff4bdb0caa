//! The hazards of the recipes: what they lose under concurrent writers, killed primaries, and callers that retry.
//!
//! MongoDB publishes each pattern twice: in its manual, and in the skill `mongodb-schema-design` of its repository
//! `mongodb/agent-skills`, which coding agents read. Both are reimplemented here from their descriptions. Every recipe
//! gets the same operations, the same callers and the same kills. Checks of the stored documents, which share no code
//! with the library, count the damage.

mod block;
mod bucket;
mod cluster;
mod computed;
mod embedded;
mod history;
mod load;
mod outlier;
mod reference;
mod report;
mod stored;
mod subset;

use anyhow::{Context, Result, ensure};
use mongodb::Database;
use serde::Serialize;

use cluster::Cluster;
use load::{CLIENTS, Ledger, Size, Write};
use report::{Report, Row};

/// The options of the subcommand.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Runs few operations with one kill each, to try the program.
    #[arg(long)]
    quick: bool,
    /// Replaces the tables in README.md and in the book, and the picture.
    #[arg(long, conflicts_with = "quick")]
    write: bool,
}

/// Who describes a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Source {
    Manual,
    /// The manual, by a program that reads the array, adds to it, and writes it back.
    WriteBack,
    /// The manual, by a program that runs the commands of an operation in a transaction.
    InTransactions,
    AgentSkills,
    Ours,
}

impl Source {
    const ALL: [Self; 5] = [
        Self::Manual,
        Self::WriteBack,
        Self::InTransactions,
        Self::AgentSkills,
        Self::Ours,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::WriteBack => "manual, array written back",
            Self::InTransactions => "manual, in transactions",
            Self::AgentSkills => "agent skills",
            Self::Ours => "mongo-patterns",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Pattern {
    Bucket,
    Outlier,
    Subset,
    Computed,
    Embedded,
    History,
    Reference,
}

impl Pattern {
    const ALL: [Self; 7] = [
        Self::Bucket,
        Self::Outlier,
        Self::Subset,
        Self::Computed,
        Self::Embedded,
        Self::History,
        Self::Reference,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::Outlier => "outlier",
            Self::Subset => "subset",
            Self::Computed => "computed fields",
            Self::Embedded => "embedded",
            Self::History => "history",
            Self::Reference => "reference",
        }
    }

    /// Returns whether the pattern has this recipe. Where the manual has no commands for an array, a
    /// program can also write it back. The manual computes fields by a job, and not with each write.
    fn has(self, source: Source) -> bool {
        match source {
            Source::Manual => !matches!(self, Self::Computed),
            Source::WriteBack => matches!(self, Self::Outlier | Self::Embedded),
            Source::InTransactions => matches!(self, Self::Reference),
            // They have no commands for this pattern.
            Source::AgentSkills => !matches!(self, Self::Reference),
            Source::Ours => true,
        }
    }

    /// Creates the collections, indexes and first documents.
    async fn prepare(self, source: Source, database: &Database) -> Result<()> {
        match self {
            Self::Bucket => bucket::prepare(source, database).await,
            Self::Outlier => outlier::prepare(source, database).await,
            Self::Subset => subset::prepare(source, database).await,
            Self::Computed => computed::prepare(source, database).await,
            Self::Embedded => embedded::prepare(source, database).await,
            Self::History => history::prepare(source, database).await,
            Self::Reference => reference::prepare(source, database).await,
        }
    }

    /// Returns the writes of each client.
    fn writes(self, source: Source, databases: &[Database]) -> Result<Vec<Write>> {
        match self {
            Self::Bucket => bucket::writes(source, databases),
            Self::Outlier => outlier::writes(source, databases),
            Self::Subset => subset::writes(source, databases),
            Self::Computed => computed::writes(source, databases),
            Self::Embedded => embedded::writes(source, databases),
            Self::History => history::writes(source, databases),
            Self::Reference => reference::writes(source, databases),
        }
    }

    async fn check(self, source: Source, database: &Database, ledger: &Ledger) -> Result<Hazards> {
        match self {
            Self::Bucket => bucket::check(database, ledger).await,
            Self::Outlier => outlier::check(source, database, ledger).await,
            Self::Subset => subset::check(source, database, ledger).await,
            Self::Computed => computed::check(database, ledger).await,
            Self::Embedded => embedded::check(database, ledger).await,
            Self::History => history::check(source, database, ledger).await,
            Self::Reference => reference::check(source, database, ledger).await,
        }
    }
}

/// What the stored documents show. `None` where it does not apply to the pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Hazards {
    /// Acknowledged, and not stored.
    lost: u64,
    /// Stored more than once.
    doubled: u64,
    /// Documents whose copies or totals contradict the data.
    stale: Option<u64>,
    /// Partial pages and overflow documents before the last one, missing positions, and missing revisions.
    gaps: Option<u64>,
    /// Documents that exceed a bound, compete for a position, or that no reader finds.
    wrong: u64,
}

impl Hazards {
    fn is_none(self) -> bool {
        self.lost + self.doubled + self.stale.unwrap_or(0) + self.gaps.unwrap_or(0) + self.wrong == 0
    }
}

/// Runs all recipes, and prints one table.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let size = if options.quick { Size::QUICK } else { Size::FULL };
    let mut cluster = Cluster::start().await?;
    let (mut rows, mut violated) = (Vec::new(), Vec::new());
    for pattern in Pattern::ALL {
        for source in Source::ALL.into_iter().filter(|source| pattern.has(*source)) {
            let name = format!("{}: {}", pattern.name(), source.name());
            let (ledger, hazards, commands) = run_once(&mut cluster, pattern, source, size)
                .await
                .with_context(|| name.clone())?;
            eprintln!("{name}: {hazards:?}, {}", ledger.summary());
            if source == Source::Ours && !hazards.is_none() {
                violated.push(name.clone());
            }
            rows.push(Row::new(pattern, source, &ledger, hazards, commands));
        }
    }
    let server = cluster.version().to_owned();
    let report = Report { server, size, rows };
    println!("{}", report.whole());
    ensure!(
        violated.is_empty(),
        "mongo-patterns violated its guarantees: {}",
        violated.join(", ")
    );
    match options.write {
        true => report.write(),
        false => Ok(()),
    }
}

/// Runs one recipe in a database of its own. Returns the outcomes, the damage and the commands per operation.
async fn run_once(
    cluster: &mut Cluster,
    pattern: Pattern,
    source: Source,
    size: Size,
) -> Result<(Ledger, Hazards, f64)> {
    let name = format!("{}_{}", pattern.name(), source.name()).replace([' ', '-', ','], "_");
    let plain = cluster.plain(&name).await?;
    pattern.prepare(source, &plain).await?;
    let mut databases = Vec::new();
    for _ in 0..CLIENTS {
        databases.push(cluster.counted(&name).await?);
    }
    let writes = pattern.writes(source, &databases)?;
    let before = cluster.commands();
    let ledger = load::run(cluster, size, &writes).await?;
    cluster.wait_until_idle(&plain).await?;
    let commands = (cluster.commands() - before) as f64 / size.operations as f64;
    let hazards = pattern.check(source, &plain, &ledger).await?;
    plain.drop().await?;
    Ok((ledger, hazards, commands))
}
