//! Packs every crate as it would be published, and compiles what was packed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process::{cargo, run};

const TARGET: &str = "target/package-check";

/// Runs `cargo publish --dry-run` in a directory of its own.
///
/// Cargo takes a packed crate for one that never changes. It neither unpacks nor compiles it again while the version
/// is the same, and would check the sources of an earlier run.
pub(crate) fn check() -> Result<()> {
    remove(Path::new(TARGET))?;
    for unpacked in unpacked_crates()? {
        remove(&unpacked)?;
    }
    // The check is of the packages: a tree with changes that are not committed is as good.
    let dry_run = [
        "publish",
        "--workspace",
        "--dry-run",
        "--locked",
        "--allow-dirty",
        "--target-dir",
        TARGET,
    ];
    run(&mut cargo(dry_run))?;
    remove(Path::new(TARGET))
}

/// Where Cargo unpacked crates of this workspace. The registry of a dry run is a directory, so its name has no host.
fn unpacked_crates() -> Result<Vec<PathBuf>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let sources = home
        .context("neither CARGO_HOME nor a home directory is known")?
        .join("registry/src");
    let mut found = Vec::new();
    for registry in entries(&sources)? {
        if starts_with(&registry, "-") {
            found.extend(
                entries(&registry)?
                    .into_iter()
                    .filter(|path| starts_with(path, "mongo-patterns-")),
            );
        }
    }
    Ok(found)
}

fn starts_with(path: &Path, prefix: &str) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let read = || fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect();
    or_missing(read()).with_context(|| format!("reading {}", directory.display()))
}

fn remove(directory: &Path) -> Result<()> {
    or_missing(fs::remove_dir_all(directory)).with_context(|| format!("removing {}", directory.display()))
}

fn or_missing<T: Default>(result: std::io::Result<T>) -> std::io::Result<T> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(T::default()),
        result => result,
    }
}
