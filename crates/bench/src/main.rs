//! Benchmarks of the patterns against a real MongoDB: `cargo run --release -p mongo-patterns-bench`.
//!
//! Variants take turns in one run, so that their ratios are meaningful on a machine whose speed varies. The reports
//! also have the server's own counts, and the CPU time of both processes. No test asserts a time.

mod archive;
mod bench;
mod beside;
mod bucket;
mod counts;
mod cpu;
mod hazards;
mod history;
mod measure;
mod outlier;
mod page;
mod part;
mod reference;
mod report;
mod schema;
mod subset;
mod summary;
mod svg;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use mongo_patterns_testkit::{self as testkit, TestDatabase};

use crate::bench::{Bench, client};
use crate::page::Run;
use crate::part::Part;
use crate::report::Section;

/// Benchmarks of mongo-patterns, against the MongoDB at MONGODB_URI or one that this program starts.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Runs with small sizes, to try the program: the figures are not meaningful.
    #[arg(long)]
    quick: bool,
    /// The number of rounds, after one warm-up round. 5 by default, and 1 with --quick.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Runs only the section of this name, or the sections of this pattern. Can be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The folder for the page, the charts and the raw figures. By default book/src/benchmarks for a complete run, and
    /// none with --quick or --only.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the recipes of MongoDB's manual, those of its agent skills, and mongo-patterns under one load with killed
    /// primaries, and prints what they lose.
    Hazards(hazards::Options),
}

/// The most tasks of a section, each with a connection.
const MOST_WRITERS: u32 = 64;

const PARTS: [Part; 7] = [
    bucket::PART,
    outlier::PART,
    subset::PART,
    history::PART,
    reference::PART,
    schema::PART,
    archive::PART,
];

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(Command::Hazards(options)) = &args.command {
        return hazards::run(options).await;
    }
    let known = |name: &str| {
        PARTS
            .iter()
            .any(|part| part.name == name || part.sections.iter().any(|(section, _)| *section == name))
    };
    if let Some(unknown) = args.only.iter().find(|name| !known(name)) {
        let names = |part: &Part| {
            part.sections
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let sections = PARTS.each_ref().map(|part| format!("{}: {}", part.name, names(part)));
        bail!(
            "the section `{unknown}` does not exist; the sections are\n{}",
            sections.join("\n")
        );
    }
    testkit::run(async |db| run(&args, db).await).await
}

async fn run(args: &Args, db: &TestDatabase) -> Result<()> {
    let bench = Bench {
        db,
        wide: client(db, MOST_WRITERS).await?,
        quick: args.quick,
        rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 5 }).into(),
    };
    let run = Run::new(&bench);
    println!("{}", run.summary());
    let whole = !args.quick && args.only.is_empty();
    let out = args
        .out
        .clone()
        .or_else(|| whole.then(|| PathBuf::from("book/src/benchmarks")));
    let mut parts: Vec<Vec<Section>> = Vec::new();
    for part in &PARTS {
        let mut sections: Vec<Section> = Vec::new();
        for (name, run_section) in part.sections {
            if args.only.is_empty() || args.only.iter().any(|only| only == name || only == part.name) {
                let section = run_section(&bench).await?;
                println!("\n{}", section.terminal());
                sections.push(section);
            }
        }
        parts.push(sections);
    }
    let mut summary = match args.only.is_empty() {
        true => summary::summary(&parts.iter().flatten().collect::<Vec<_>>())?,
        false => String::new(),
    };
    println!("{summary}");
    let Some(out) = out else { return Ok(()) };
    for (part, sections) in PARTS.iter().zip(&parts).filter(|(_, sections)| !sections.is_empty()) {
        // The first page has it.
        page::write(&out, &run, part, sections, &std::mem::take(&mut summary))?;
    }
    println!("\nWritten to {}", out.display());
    Ok(())
}
