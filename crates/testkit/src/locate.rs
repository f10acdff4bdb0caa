//! The search for the programs mongod and mongos.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::StartError;
use crate::docker::{DOCKER_IMAGE, Docker};
use crate::machine::{Programs, Source};
use crate::system::on_path;
use crate::wheel;

/// Whether programs of this machine can be used: the process that ends them with this one is a shell.
const HAS_SHELL: bool = cfg!(unix);

/// Returns where mongod comes from.
pub(crate) fn mongod() -> Result<Source, StartError> {
    if let Some(named) = named_mongod() {
        return named.map_err(StartError::one);
    }
    let mut tried = vec!["MONGODB_URI and MONGOD: not set".to_owned()];
    if HAS_SHELL && let Some(mongod) = mongod_of_this_machine(&mut tried) {
        return Ok(Source::Programs(Programs { mongod, mongos: None }));
    }
    docker(&mut tried).ok_or_else(|| StartError::new(tried))
}

/// Returns where mongod and mongos come from. A mongos is not downloaded, except in a Docker image.
pub(crate) fn cluster() -> Result<Source, StartError> {
    if let Some(mongos) = named("MONGOS") {
        let mongos = mongos.map_err(|problem| StartError::no_mongos(vec![problem]))?;
        return with_mongos(mongos);
    }
    if let Some(Ok(Source::Image(docker))) = named_mongod() {
        return Ok(Source::Image(docker));
    }
    let mut tried = vec!["MONGOS: not set".to_owned()];
    match on_path("mongos").filter(|_| HAS_SHELL) {
        Some(path) => match check(&path) {
            Ok(()) => return with_mongos(path),
            Err(problem) => tried.push(format!("{}: {problem}", path.display())),
        },
        None => tried.push("a mongos on the PATH: none".to_owned()),
    }
    docker(&mut tried).ok_or_else(|| StartError::no_mongos(tried))
}

/// Returns a mongos of this machine, with its mongod.
fn with_mongos(mongos: PathBuf) -> Result<Source, StartError> {
    match mongod()? {
        Source::Programs(Programs { mongod, .. }) => Ok(Source::Programs(Programs {
            mongod,
            mongos: Some(mongos),
        })),
        Source::Image(_) => Err(StartError::one(format!(
            "{} is a program of this machine, and mongod would run in Docker: set MONGOD to a program, too",
            mongos.display()
        ))),
    }
}

/// Returns what `MONGOD` names, if it is set: a program, or `docker` with or without an image.
fn named_mongod() -> Option<Result<Source, String>> {
    let value = env::var("MONGOD").unwrap_or_default();
    let image = match value.strip_prefix("docker") {
        Some("") => Some(DOCKER_IMAGE),
        Some(image) => image.strip_prefix(':'),
        None => None,
    };
    match image {
        Some(image) => {
            let docker = Docker::find(image).map_err(|problem| format!("MONGOD={value}: {problem}"));
            Some(docker.map(Source::Image))
        }
        None => {
            let source = |mongod| Source::Programs(Programs { mongod, mongos: None });
            named("MONGOD").map(|named| named.map(source))
        }
    }
}

fn mongod_of_this_machine(tried: &mut Vec<String>) -> Option<PathBuf> {
    let found = on_path("mongod");
    if found.is_none() {
        tried.push("a mongod on the PATH: none".to_owned());
    }
    let found = found.and_then(|path| running(path, tried));
    found.or_else(|| wheel::mongod(tried).and_then(|path| running(path, tried)))
}

/// Returns a program if it runs here.
fn running(path: PathBuf, tried: &mut Vec<String>) -> Option<PathBuf> {
    match check(&path) {
        Ok(()) => Some(path),
        Err(problem) => {
            tried.push(format!("{}: {problem}", path.display()));
            None
        }
    }
}

fn docker(tried: &mut Vec<String>) -> Option<Source> {
    match Docker::find(DOCKER_IMAGE) {
        Ok(docker) => Some(Source::Image(docker)),
        Err(problem) => {
            tried.push(format!("the image {DOCKER_IMAGE} in Docker: {problem}"));
            None
        }
    }
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
