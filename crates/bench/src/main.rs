//! Benchmarks of the patterns against a real MongoDB: `cargo run --release -p mongo-patterns-bench`.
//!
//! Contestants take turns in one run, so that ratios between them hold on a machine whose speed does not. Beside the
//! time stand the server's own counts, and the CPU time of both processes. No time is ever asserted.

mod alternate;
mod bucket;
mod counts;
mod cpu;
mod measure;
mod outlier;
mod page;
mod report;
mod subset;
mod svg;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Parser;
use mongo_patterns_testkit::{self as testkit, TestDatabase};
use mongodb::Collection;
use mongodb::bson::Document;

use crate::page::Run;
use crate::report::Section;

/// Benchmarks of mongo-patterns, against the MongoDB at MONGODB_URI or one that is started.
#[derive(Parser)]
struct Args {
    /// A small run, to try it: its figures mean little.
    #[arg(long)]
    quick: bool,
    /// How many rounds count, after one to warm up. By default 5, and 1 with --quick.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Only the section of this name, or the sections of this pattern; can be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The folder for the page, the charts and the raw figures. By default docs/benchmarks for a whole run, and none
    /// with --quick or --only.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The benchmarks of one pattern.
struct Part {
    name: &'static str,
    /// The file of its page.
    page: &'static str,
    /// In the order in which they run. No two parts have one of the same name.
    sections: &'static [&'static str],
}

const PARTS: [Part; 3] = [
    Part {
        name: "bucket",
        page: "README.md",
        sections: &bucket::SECTIONS,
    },
    Part {
        name: "outlier",
        page: "outlier.md",
        sections: &outlier::SECTIONS,
    },
    Part {
        name: "subset",
        page: "subset.md",
        sections: &subset::SECTIONS,
    },
];

/// What all sections need.
struct Bench<'a> {
    db: &'a TestDatabase,
    quick: bool,
    /// How many rounds count. One more goes before them, to warm up.
    rounds: usize,
}

impl Bench<'_> {
    /// One size for a full run, and another for a quick one.
    fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A collection by a client that nothing watches, for what is timed.
    fn collection(&self, name: &str) -> Collection<Document> {
        self.db.plain_collection(name)
    }

    /// The same by a client whose commands are recorded, for what is counted.
    fn recorded(&self, name: &str) -> Collection<Document> {
        self.db.collection(name)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let known = |name: &str| {
        PARTS
            .iter()
            .any(|part| part.name == name || part.sections.contains(&name))
    };
    if let Some(unknown) = args.only.iter().find(|name| !known(name)) {
        let sections = PARTS.map(|part| format!("{}: {}", part.name, part.sections.join(", ")));
        bail!("there is no section `{unknown}`; there are\n{}", sections.join("\n"));
    }
    testkit::run(async |db| run(&args, db).await).await
}

async fn run(args: &Args, db: &TestDatabase) -> Result<()> {
    let bench = Bench {
        db,
        quick: args.quick,
        rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 5 }).into(),
    };
    let run = Run::new(&bench);
    println!("{}", run.summary());
    let whole = !args.quick && args.only.is_empty();
    let out = args
        .out
        .clone()
        .or_else(|| whole.then(|| PathBuf::from("docs/benchmarks")));
    for part in &PARTS {
        let mut sections: Vec<Section> = Vec::new();
        for name in part.sections {
            if args.only.is_empty() || args.only.iter().any(|only| only == name || only == part.name) {
                let section = match part.name {
                    "bucket" => bucket::section(&bench, name).await?,
                    "outlier" => outlier::section(&bench, name).await?,
                    _ => subset::section(&bench, name).await?,
                };
                println!("\n{}", section.terminal());
                sections.push(section);
            }
        }
        if let Some(out) = out.as_ref().filter(|_| !sections.is_empty()) {
            page::write(out, &run, part, &sections)?;
            println!("\nWritten to {}", out.display());
        }
    }
    Ok(())
}
