//! Runs the examples, and compares what they print with files of the repository.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{array, fs, thread};

use anyhow::{Context, Result, bail};

use crate::process::{cargo, output, readme_command, run as run_process};

const FOLDER: &str = "crates/mongo-patterns/examples";
/// Where Cargo puts the programs.
const BUILT: &str = "target/debug/examples";
/// The example that README tells a newcomer to run.
const FIRST: &str = "tour";

/// How many run at a time. Each starts a server, and waits for it.
const WORKERS: usize = 4;

/// Runs every example.
pub(crate) fn run() -> Result<()> {
    compare(FIRST, &output(&mut readme_command("cargo run --example tour")?)?)?;
    run_process(&mut cargo(["build", "--quiet", "--locked", "--examples"]))?;
    let names: Vec<String> = names()?.into_iter().filter(|name| name != FIRST).collect();
    let one = |name: &String| compare(name, &output(&mut Command::new(Path::new(BUILT).join(name)))?);
    thread::scope(|scope| {
        let of = |worker| names.iter().skip(worker).step_by(WORKERS);
        let workers: [_; WORKERS] = array::from_fn(|worker| scope.spawn(move || of(worker).try_for_each(one)));
        let mut ended = workers.into_iter().map(thread::ScopedJoinHandle::join);
        ended.try_for_each(|ended| ended.unwrap_or_else(|_| bail!("an example was not run")))
    })
}

/// Every file of the examples' folder is an example.
fn names() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(FOLDER).context(FOLDER)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    if names.is_empty() {
        bail!("{FOLDER} has no examples");
    }
    Ok(names)
}

fn compare(name: &str, printed: &str) -> Result<()> {
    let path = Path::new(FOLDER).join("expected").join(format!("{name}.txt"));
    let expected = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let (expected, printed) = (expected.lines().collect::<Vec<_>>(), stable(printed));
    let differs = |at: &usize| expected.get(*at).copied() != printed.get(*at).map(String::as_str);
    let Some(at) = (0..expected.len().max(printed.len())).find(differs) else {
        println!("example {name}: as expected");
        return Ok(());
    };
    println!("{}", printed.join("\n"));
    bail!(
        "the output of example {name} differs from {} in line {}: expected {:?}, printed {:?}",
        path.display(),
        at + 1,
        expected.get(at),
        printed.get(at)
    );
}

/// Returns the output without the server's version, a rate, and what a race has left of the manual's commands, which vary.
/// Without blank lines at its end.
fn stable(printed: &str) -> Vec<String> {
    let lines = printed.trim_end().lines().filter(|line| !line.starts_with("MongoDB "));
    let stable = lines.map(|line| {
        if let Some(rate) = line.strip_prefix("Rate: ") {
            return format!(
                "Rate: N{}",
                rate.trim_start_matches(|digit: char| digit.is_ascii_digit())
            );
        }
        match line.strip_prefix("the manual's commands ") {
            Some(_) => "the manual's commands: N".to_owned(),
            None => line.to_owned(),
        }
    });
    stable.collect()
}

#[cfg(test)]
mod tests {
    use super::stable;

    #[test]
    fn versions_and_rates_are_left_out() {
        let printed =
            "MongoDB 6.0.1 was started\nRate: 1234 items a second\nRate limit\nthe manual's commands  800  23\n\n";
        let expected = ["Rate: N items a second", "Rate limit", "the manual's commands: N"];
        assert_eq!(stable(printed), expected);
    }
}
