//! The search for a mongod program.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::StartError;
use crate::wheel;

/// Returns the path of a mongod that runs on this machine.
pub(crate) fn locate() -> Result<PathBuf, StartError> {
    let mut tried = Vec::new();
    if let Some(named) = env::var_os("MONGOD").filter(|value| !value.is_empty()) {
        let path = PathBuf::from(named);
        return match check(&path) {
            Ok(()) => Ok(path),
            Err(problem) => Err(StartError::one(format!("MONGOD={}: {problem}", path.display()))),
        };
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

/// Returns the first executable file with this name on the `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Checks that the program runs here, since a library that it needs can be missing.
fn check(mongod: &Path) -> Result<(), String> {
    let output = Command::new(mongod)
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
