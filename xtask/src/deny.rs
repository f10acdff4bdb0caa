//! Licences, duplicate crates, sources and advisories, by cargo-deny.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;
use clap::Args;

use crate::process::{cargo, run as run_process};

const VERSION: &str = "0.20.2";
/// Where it is installed when the machine has none.
const TOOLS: &str = "target/tools";

/// What is checked.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The checks. Advisories are fetched from RustSec's repository.
    #[arg(value_parser = ["advisories", "bans", "licenses", "sources"], default_values = ["advisories", "bans", "licenses", "sources"])]
    checks: Vec<String>,
}

/// Runs cargo-deny, which is installed when it is missing.
pub(crate) fn run(options: &Options) -> Result<()> {
    check(options.checks.iter().map(String::as_str))
}

/// Runs the checks that need nothing from the network.
pub(crate) fn check_offline() -> Result<()> {
    check(["bans", "licenses", "sources"])
}

fn check<'a>(checks: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut deny = program()?;
    deny.args(["--locked", "--all-features", "check"]).args(checks);
    run_process(&mut deny)
}

fn program() -> Result<Command> {
    let mut installed = Command::new("cargo-deny");
    let found = installed
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_ok_and(|status| status.success()) {
        return Ok(Command::new("cargo-deny"));
    }
    let path = Path::new(TOOLS)
        .join("bin")
        .join(format!("cargo-deny{}", std::env::consts::EXE_SUFFIX));
    if !path.exists() {
        // Its debug build takes half the time to compile, and a few seconds to run.
        let install = ["install", "--locked", "--debug", "cargo-deny", "--version", VERSION];
        run_process(cargo(install).args(["--root", TOOLS]))?;
    }
    Ok(Command::new(path))
}
