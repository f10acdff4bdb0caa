//! Runs other programs, and fails when they fail.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The crates of the patterns.
pub(crate) const PATTERNS: [&str; 11] = [
    "bucket",
    "outlier",
    "subset",
    "embedded",
    "history",
    "intervals",
    "reference",
    "schema",
    "archive",
    "archive-files",
    "counters",
];

/// Makes the root of the workspace the current directory.
pub(crate) fn enter_workspace() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::set_current_dir(&root).with_context(|| format!("entering {}", root.display()))
}

/// A call of the Cargo that runs this program.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    remove_package_variables(&mut command);
    command.args(arguments);
    command
}

/// Removes the variables of this program's own package. They would make the build scripts of some dependencies run again, and
/// all that needs these compile again.
pub(crate) fn remove_package_variables(command: &mut Command) {
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(variable);
        }
    }
}

/// A command that README tells a newcomer to run.
pub(crate) fn readme_command(line: &str) -> Result<Command> {
    let readme = fs::read_to_string("README.md").context("reading README.md")?;
    if !readme.lines().any(|told| told == line) {
        bail!("README.md does not tell to run `{line}`; restore the line, or change it in xtask/src too");
    }
    let arguments = line.strip_prefix("cargo ").context("not a call of Cargo")?;
    Ok(cargo(arguments.split(' ')))
}

/// The arguments of Cargo for the integration tests. A failure of the first program does not prevent the second.
pub(crate) const INTEGRATION_TESTS: [&str; 5] = ["--no-fail-fast", "--test", "patterns", "--test", "promises"];

/// A call of the `cargo` of rustup, which takes a toolchain such as `+1.88`.
pub(crate) fn rustup_cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("cargo");
    // Otherwise rustup takes the toolchain that runs this program.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.args(arguments);
    command
}

/// Returns the files of the repository: those that git tracks, and new ones that it does not ignore.
pub(crate) fn tracked_files() -> Result<Vec<String>> {
    let files = output(Command::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]))?;
    // A file that was moved or deleted is listed until that is committed.
    let existing = files.lines().filter(|file| Path::new(file).exists());
    Ok(existing.map(str::to_owned).collect())
}

/// Runs a command, whose output goes where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = in_words(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("starting `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs a command and returns what it prints to its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = in_words(command);
    println!("$ {line}");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("starting `{line}`"))?;
    if !output.status.success() {
        print!("{}", String::from_utf8_lossy(&output.stdout));
        bail!("`{line}` failed: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("reading the output of `{line}`"))
}

fn in_words(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={} ", name.to_string_lossy(), value?.to_string_lossy())));
    let mut line: String = variables.collect();
    line.push_str(&program.to_string_lossy());
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}
