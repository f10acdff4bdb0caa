//! The long forms of the proofs. The options become environment variables, which the tests read.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::process::{INTEGRATION_TESTS, cargo, output, run as run_process};
use crate::timed;

const FAULTS: &str = "faults::table::every_command_and_every_fault";
const DROPS: &str = "faults::table::every_command_and_the_caller_drops_it";
const PRIMARY: &str = "cluster::three_nodes::what_is_acknowledged_is_stored_once_whatever_happens_to_the_primary";
const RANGES: &str = "bucket::items_range::random_histories_and_queries";
const MODELS: &str = "model::";

/// A proof in its long form.
#[derive(Debug, Subcommand)]
pub(crate) enum Proof {
    /// Runs every operation with every fault at each of its commands (about 10 minutes).
    Faults(Faults),
    /// Drops every operation at each of its commands, at 60 random moments, and while another client holds its documents
    /// (about 10 minutes).
    Drops(Only),
    /// Kills, freezes and steps down the primary of three nodes 160 times. Writes docs/three-nodes.md.
    Primary,
    /// Reads 3,000 random histories by range, skip, limit and token, and compares them with a model.
    Ranges,
    /// Compares random sequences of calls with models in memory.
    Models(Models),
    /// Explores more states of the protocols with the model checker.
    Protocols(Protocols),
    /// Fuzzes one target with cargo-fuzz, which must be installed.
    Fuzz(Fuzz),
}

/// Which cases of the fault table are run.
#[derive(Args, Debug)]
pub(crate) struct Faults {
    #[command(flatten)]
    only: Only,
    /// Writes the table as Markdown to this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Runs the cases of `cargo xtask ci --full`, with the faults chosen by this number.
    #[arg(long, value_name = "NUMBER", conflicts_with = "report")]
    seed: Option<u32>,
}

/// Which operations are run.
#[derive(Args, Debug)]
pub(crate) struct Only {
    /// Runs only the operations whose names contain this text, such as `caller's transaction`.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// How many calls the models check.
#[derive(Args, Debug)]
pub(crate) struct Models {
    /// How many calls all models check together. A million takes 70 minutes.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    calls: u32,
    /// Repeats the sequences of an earlier run, whose failure names this number.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

/// How many states the model checker explores.
#[derive(Args, Debug)]
pub(crate) struct Protocols {
    /// Explores two faults per run instead of more initial states. Takes 7 minutes, and not 3.
    #[arg(long)]
    two_faults: bool,
}

/// What is fuzzed.
#[derive(Args, Debug)]
pub(crate) struct Fuzz {
    /// The target.
    #[arg(value_parser = ["key_codec", "buckets", "outliers", "subsets", "embedded", "profile"])]
    target: String,
    /// For how long.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    seconds: u32,
}

/// Runs a proof.
pub(crate) fn run(proof: &Proof) -> Result<()> {
    match proof {
        Proof::Faults(faults) => run_faults(faults),
        Proof::Drops(only) => integration(DROPS, |test| {
            test.env("MONGO_PATTERNS_LONG", "1");
            only.pass_to(test);
        }),
        Proof::Primary => integration(PRIMARY, is_long),
        Proof::Ranges => integration(RANGES, is_long),
        Proof::Models(models) => run_models(models),
        Proof::Protocols(protocols) => {
            let mut test = cargo(["test", "--locked", "-p", "mongo-patterns-protocols", "--lib"]);
            match protocols.two_faults {
                true => test.env("PROTOCOLS_FAULTS", "2"),
                false => test.env("PROTOCOLS", "long"),
            };
            run_process(test.args(["--", "--include-ignored", "--nocapture"]))
        }
        Proof::Fuzz(fuzz) => run_fuzz(fuzz),
    }
}

fn run_faults(faults: &Faults) -> Result<()> {
    integration(FAULTS, |test| {
        match faults.seed {
            Some(seed) => test.env("MONGO_PATTERNS_SEED", seed.to_string()),
            None => test.env("MONGO_PATTERNS_LONG", "1"),
        };
        if let Some(report) = &faults.report {
            test.env(
                "MONGO_PATTERNS_TABLE",
                std::path::absolute(report).unwrap_or_else(|_| report.clone()),
            );
        }
        faults.only.pass_to(test);
    })
}

/// Compares this number of calls with the models.
pub(crate) fn check_models(calls: u32) -> Result<()> {
    run_models(&Models { calls, seed: None })
}

fn run_models(models: &Models) -> Result<()> {
    integration(MODELS, |test| {
        test.env("MODEL_OPERATIONS", models.calls.to_string());
        if let Some(seed) = models.seed {
            test.env("MODEL_SEED", seed.to_string());
        }
    })
}

fn run_fuzz(fuzz: &Fuzz) -> Result<()> {
    let seconds = format!("-max_total_time={}", fuzz.seconds);
    // The targets need flags that a stable compiler takes only so, and no sanitizer, since nothing here is unsafe.
    run_process(
        cargo(["fuzz", "run", "--sanitizer", "none", &fuzz.target, "--"])
            .args([&seconds, "-dict=fuzz/dictionary.txt"])
            .env("RUSTC_BOOTSTRAP", "1"),
    )
}

fn is_long(test: &mut Command) {
    test.env("MONGO_PATTERNS_LONG", "1");
}

impl Only {
    fn pass_to(&self, test: &mut Command) {
        if let Some(only) = &self.only {
            test.env("MONGO_PATTERNS_ONLY", only);
        }
    }
}

/// Runs the integration tests whose names contain `filter`, and fails when there are none.
fn integration(filter: &str, configure: impl FnOnce(&mut Command)) -> Result<()> {
    let call = || {
        let mut test = cargo(["test", "--workspace", "--locked"]);
        test.args(INTEGRATION_TESTS);
        test.args(["--", "--include-ignored", filter]);
        test
    };
    let listed = output(call().arg("--list"))?;
    // Without this a test with another name would be a proof that passes.
    let none = format!("no integration test is named `{filter}`; correct the name in xtask/src/long.rs");
    timed::ensure_tests(&listed, &none)?;
    let mut test = call();
    test.arg("--nocapture");
    configure(&mut test);
    run_process(&mut test)
}
