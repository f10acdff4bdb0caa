//! The search for the programs mongod and mongos.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::StartError;
use crate::search_path::on_path;
use crate::wheel;

/// Returns the path of a mongod that runs on this machine.
pub(crate) fn mongod() -> Result<PathBuf, StartError> {
    let mut tried = Vec::new();
    if let Some(named) = named("MONGOD") {
        return named.map_err(StartError::one);
    }
    tried.push("MONGODB_URI and MONGOD: not set".to_owned());

    match on_path("mongod") {
        Some(path) => match check(&path) {
            Ok(()) => return Ok(path),
            Err(problem) => tried.push(format!("{}: {problem}", path.display())),
        },
        None => tried.push("a mongod on the PATH: none".to_owned()),
    }

    match wheel::mongod(&mut tried) {
        Some(path) => match check(&path) {
            Ok(()) => Ok(path),
            Err(problem) => {
                tried.push(format!("{}: {problem}", path.display()));
                Err(StartError::new(tried))
            }
        },
        None => Err(StartError::new(tried)),
    }
}

/// Returns the path of a mongos that runs on this machine. It cannot be downloaded.
pub(crate) fn mongos() -> Result<PathBuf, StartError> {
    let mut tried = Vec::new();
    if let Some(named) = named("MONGOS") {
        return named.map_err(|problem| StartError::no_mongos(vec![problem]));
    }
    tried.push("MONGOS: not set".to_owned());
    match on_path("mongos") {
        Some(path) => match check(&path) {
            Ok(()) => return Ok(path),
            Err(problem) => tried.push(format!("{}: {problem}", path.display())),
        },
        None => tried.push("a mongos on the PATH: none".to_owned()),
    }
    Err(StartError::no_mongos(tried))
}

/// Returns the program that an environment variable names, if it is set.
fn named(variable: &str) -> Option<Result<PathBuf, String>> {
    let path = PathBuf::from(env::var_os(variable).filter(|value| !value.is_empty())?);
    Some(match check(&path) {
        Ok(()) => Ok(path),
        Err(problem) => Err(format!("{variable}={}: {problem}", path.display())),
    })
}

/// Checks that the program runs here, since a library that it needs can be missing.
fn check(program: &Path) -> Result<(), String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .map_err(|error| format!("cannot be started: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!(
            "does not run here: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}
