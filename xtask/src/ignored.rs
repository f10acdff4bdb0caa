//! The tests that `cargo test` ignores, because they take too much time.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::process::tracked_files;
use crate::promises::module_of;

/// The reason of a test that is for `cargo xtask ci --full`.
pub(crate) const LONG_TESTS: &str = "long: cargo xtask ci --full";
/// The reason of a test that is for `cargo xtask ci`.
const SLOW_TESTS: &str = "slow: cargo xtask ci";

/// Returns the arguments of a test program that runs the slow tests too, and no long ones.
///
/// # Errors
/// If there are none: the attribute has another text then.
pub(crate) fn with_slow_tests() -> Result<Vec<String>> {
    ignored_tests(SLOW_TESTS)?;
    let long = ignored_tests(LONG_TESTS)?;
    let skipped = long.into_iter().flat_map(|test| ["--skip".to_owned(), test]);
    Ok(["--include-ignored".to_owned()].into_iter().chain(skipped).collect())
}

/// Returns the paths of the tests with this reason in their attribute `ignore`.
pub(crate) fn ignored_tests(reason: &str) -> Result<Vec<String>> {
    let attribute = format!("#[ignore = \"{reason}\"]");
    let mut tests = Vec::new();
    for file in tracked_files()? {
        let Some(module) = module_of(&file) else { continue };
        // The harness of a crate does not print its name.
        let module = match file.starts_with("tests/") {
            true => module.as_str(),
            false => module.split_once("::").map_or("", |(_, module)| module),
        };
        let source = fs::read_to_string(&file).with_context(|| file.clone())?;
        let mut lines = source.lines().map(str::trim);
        while lines.any(|line| line == attribute) {
            let (_, function) = lines
                .find_map(|line| line.split_once("fn "))
                .context("a test has a name")?;
            let function = function.split('(').next().unwrap_or_default();
            tests.push(format!("{module}::{function}"));
        }
    }
    ensure!(
        !tests.is_empty(),
        "no test has the attribute `{attribute}`: correct it in xtask/src/ignored.rs"
    );
    println!("{} tests are ignored: {reason}", tests.len());
    Ok(tests)
}
