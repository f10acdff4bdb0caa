//! The hazards of the recipes: what they lose under concurrent writers, killed primaries, and callers that retry.
//!
//! MongoDB publishes each pattern twice: in its manual, and in the skill `mongodb-schema-design` of its repository
//! `mongodb/agent-skills`, which coding agents read. Both are reimplemented here from their descriptions. Every recipe
//! gets the same operations, the same callers and the same kills. Checks of the stored documents, which share no code
//! with the library, count the damage.

mod archive;
mod attribute;
mod block;
mod bucket;
mod cluster;
mod computed;
mod counters;
mod embedded;
mod history;
mod interval;
mod load;
mod outlier;
mod recipe;
mod reference;
mod report;
mod schema;
mod stored;
mod subset;

use anyhow::{Context, Result, ensure};
use mongodb::Database;

use cluster::Cluster;
use load::{CLIENTS, END, Ledger, Size, Write};
use recipe::{Hazards, Pattern, Source};
use report::{Report, Row};

/// The options of the subcommand.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Runs few operations with one kill each, to try the program.
    #[arg(long)]
    quick: bool,
    /// Runs the recipes of the patterns of these names only, and takes the other rows from the book.
    #[arg(long, value_name = "PATTERN", conflicts_with = "quick")]
    only: Vec<String>,
    /// Replaces the table and the picture of the book.
    #[arg(long, conflicts_with = "quick")]
    write: bool,
}

/// Creates the collections, indexes and first documents.
async fn prepare(pattern: Pattern, source: Source, database: &Database) -> Result<()> {
    match pattern {
        Pattern::Bucket => bucket::prepare(source, database).await,
        Pattern::Outlier => outlier::prepare(source, database).await,
        Pattern::Subset => subset::prepare(source, database).await,
        Pattern::Computed => computed::prepare(source, database).await,
        Pattern::Embedded => embedded::prepare(source, database).await,
        Pattern::Attribute => attribute::prepare(source, database).await,
        Pattern::History => history::prepare(source, database).await,
        Pattern::Interval => interval::prepare(source, database).await,
        Pattern::Reference => reference::prepare(source, database).await,
        Pattern::Schema => schema::prepare(source, database).await,
        Pattern::Archive => archive::prepare(source, database).await,
        Pattern::Counters => counters::prepare(database).await,
    }
}

/// Returns the writes of each client.
fn writes(pattern: Pattern, source: Source, databases: &[Database]) -> Result<Vec<Write>> {
    match pattern {
        Pattern::Bucket => bucket::writes(source, databases),
        Pattern::Outlier => outlier::writes(source, databases),
        Pattern::Subset => subset::writes(source, databases),
        Pattern::Computed => computed::writes(source, databases),
        Pattern::Embedded => embedded::writes(source, databases),
        Pattern::Attribute => attribute::writes(source, databases),
        Pattern::History => history::writes(source, databases),
        Pattern::Interval => interval::writes(source, databases),
        Pattern::Reference => reference::writes(source, databases),
        Pattern::Schema => schema::writes(source, databases),
        Pattern::Archive => archive::writes(source, databases),
        Pattern::Counters => counters::writes(source, databases),
    }
}

async fn check(pattern: Pattern, source: Source, database: &Database, ledger: &Ledger) -> Result<Hazards> {
    match pattern {
        Pattern::Bucket => bucket::check(database, ledger).await,
        Pattern::Outlier => outlier::check(source, database, ledger).await,
        Pattern::Subset => subset::check(source, database, ledger).await,
        Pattern::Computed => computed::check(database, ledger).await,
        Pattern::Embedded => embedded::check(database, ledger).await,
        Pattern::Attribute => attribute::check(database, ledger).await,
        Pattern::History => history::check(source, database, ledger).await,
        Pattern::Interval => interval::check(database, ledger).await,
        Pattern::Reference => reference::check(source, database, ledger).await,
        Pattern::Schema => schema::check(database, ledger).await,
        Pattern::Archive => archive::check(database, ledger).await,
        Pattern::Counters => counters::check(database, ledger).await,
    }
}

/// Runs all recipes, and prints one table.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let size = if options.quick { Size::QUICK } else { Size::FULL };
    let is_selected =
        |pattern: Pattern| options.only.is_empty() || options.only.iter().any(|name| name == pattern.name());
    let mut stored = match options.only.is_empty() {
        true => Vec::new(),
        false => Report::stored()?.of(size)?,
    };
    let mut cluster = Cluster::start().await?;
    let (mut rows, mut violated) = (Vec::new(), Vec::new());
    for pattern in Pattern::ALL {
        for source in Source::ALL.into_iter().filter(|source| pattern.has(*source)) {
            if !is_selected(pattern) {
                let position = stored.iter().position(|row| row.is_of(pattern, source));
                rows.push(stored.swap_remove(position.context("the book has no row of a recipe")?));
                continue;
            }
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
    prepare(pattern, source, &plain).await?;
    let mut databases = Vec::new();
    for _ in 0..CLIENTS {
        databases.push(cluster.counted(&name).await?);
    }
    let calls = writes(pattern, source, &databases)?;
    let before = cluster.commands();
    let ledger = load::run(cluster, size, &calls).await?;
    if pattern == Pattern::Counters {
        for call in &calls {
            let ended = call(END).await;
            ensure!(ended.is_ok(), "a process did not end in order: {ended:?}");
        }
    }
    cluster.wait_until_idle(&plain).await?;
    let commands = (cluster.commands() - before) as f64 / size.operations as f64;
    let hazards = check(pattern, source, &plain, &ledger).await?;
    plain.drop().await?;
    Ok((ledger, hazards, commands))
}
