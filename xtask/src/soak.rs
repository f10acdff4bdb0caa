//! Repeats the integration tests on a busy machine, to find tests that depend on time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::ignored::with_slow_tests;
use crate::process::{INTEGRATION_TESTS, cargo, output, run as run_process};
use crate::timed::ensure_tests;

/// The output of each run that failed.
const FOLDER: &str = "target/soak";

/// How often the tests run, and beside what.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// How often the tests run.
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How many busy threads run beside them.
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    load: u32,
    /// Runs only the tests whose names contain this text, such as `subset::concurrent`.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Runs the tests repeatedly, and prints which have failed, and how often.
///
/// # Errors
/// If a run failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    run_process(integration_tests().arg("--no-run"))?;
    let listed = output(test(options)?.arg("--list"))?;
    ensure_tests(&listed, "no test is run: choose a name that `--only` finds")?;
    fs::create_dir_all(FOLDER).context(FOLDER)?;
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..options.load {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let ran = run_all(options);
        has_ended.store(true, Ordering::Relaxed);
        ran
    })
}

fn test(options: &Options) -> Result<Command> {
    let mut test = integration_tests();
    test.arg("--").args(&options.only).args(with_slow_tests()?);
    Ok(test)
}

fn integration_tests() -> Command {
    let mut test = cargo(["test", "--workspace", "--locked"]);
    test.args(INTEGRATION_TESTS);
    test
}

fn run_all(options: &Options) -> Result<()> {
    let mut failed: BTreeMap<String, u32> = BTreeMap::new();
    for run in 1..=options.runs {
        let started = Instant::now();
        let output = test(options)?.output().context("starting the tests")?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let names: Vec<&str> = printed.lines().filter_map(failed_test).collect();
        println!("run {run}: {}, {} s", output.status, started.elapsed().as_secs());
        for name in &names {
            println!("  {name}");
            *failed.entry((*name).to_owned()).or_default() += 1;
        }
        if !output.status.success() {
            let path = Path::new(FOLDER).join(format!("run-{run}.txt"));
            fs::write(&path, [output.stdout, output.stderr].concat())
                .with_context(|| format!("writing {}", path.display()))?;
            if names.is_empty() {
                *failed.entry("(no test: the program ended)".to_owned()).or_default() += 1;
            }
        }
    }
    if failed.is_empty() {
        println!("{} runs beside {} busy threads: all passed", options.runs, options.load);
        return Ok(());
    }
    for (name, times) in &failed {
        println!("{times} of {}: {name}", options.runs);
    }
    bail!("tests failed; their output is in {FOLDER}")
}

/// Reads a line such as `test outlier::push::it_is_stored ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}
