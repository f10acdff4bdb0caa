//! The check of how much code the compiler generates for each crate of the library.
//!
//! Rust compiles a generic function, and the body of an `async fn`, in each crate that uses it. A pattern crate that polls
//! a future or a cursor of the driver compiles the driver again, which is most of its code. A bound for each crate keeps
//! that from coming back.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, run};

/// The most lines of LLVM's language in thousands, with some air. Core has the driver's generic code, once.
const MOST_THOUSANDS: [(&str, usize); 12] = [
    ("core", 1500),
    ("bucket", 550),
    ("outlier", 280),
    ("subset", 420),
    ("embedded", 180),
    ("history", 400),
    ("intervals", 150),
    ("reference", 480),
    ("schema", 150),
    ("archive", 160),
    ("archive-files", 150),
    ("counters", 70),
];
/// As a release build generates code, but without the passes and the machine code, which take most of its time. The
/// dependencies stay those of the tests.
const FLAGS: [&str; 14] = [
    "-C",
    "opt-level=3",
    "-C",
    "debuginfo=0",
    "-C",
    "debug-assertions=off",
    "-C",
    "overflow-checks=off",
    "-C",
    "codegen-units=1",
    "-C",
    "no-prepopulate-passes",
    "-C",
    "linker-plugin-lto",
];
const FOLDER: &str = "target/debug/deps";

/// Counts the lines of each crate.
pub(crate) fn check() -> Result<()> {
    let mut problems = Vec::new();
    for (name, most) in MOST_THOUSANDS {
        let thousands = lines_of(name)?.div_ceil(1000);
        println!("mongo-patterns-{name}: {thousands} thousand lines of LLVM, at most {most}");
        if thousands > most {
            problems.push(format!(
                "mongo-patterns-{name} generates {thousands} thousand lines of LLVM, more than {most}: `cargo llvm-lines --release -p mongo-patterns-{name}` shows of what; if it polls a future or a cursor of the driver, use those of core"
            ));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => bail!("{}", problems.join("\n")),
    }
}

fn lines_of(name: &str) -> Result<usize> {
    let prefix = format!("mongo_patterns_{}-", name.replace('-', "_"));
    let is_output = |path: &Path| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&prefix) && file.ends_with(".ll")
    };
    let outputs = || -> Result<Vec<_>> {
        let entries = fs::read_dir(FOLDER).with_context(|| format!("reading {FOLDER}"))?;
        let paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(paths.into_iter().filter(|path| is_output(path)).collect())
    };
    for old in outputs()? {
        fs::remove_file(old)?;
    }
    let package = format!("mongo-patterns-{name}");
    let mut rustc = cargo(["rustc", "--quiet", "--locked", "--lib", "--package", &package, "--"]);
    // A crate that has not changed would not be compiled.
    rustc
        .args(FLAGS)
        .args(["--emit=llvm-ir", "--cfg", &format!("run_{}", std::process::id())]);
    run(&mut rustc)?;
    let [output] = <[_; 1]>::try_from(outputs()?)
        .map_err(|found| anyhow::anyhow!("{} outputs of {package} in {FOLDER}, not one", found.len()))?;
    let file = BufReader::new(fs::File::open(&output)?);
    let lines = count(file.lines())?;
    fs::remove_file(output)?;
    Ok(lines)
}

/// Counts the lines of functions.
fn count(lines: impl Iterator<Item = std::io::Result<String>>) -> Result<usize> {
    let mut number = 0;
    let mut in_function = false;
    for line in lines {
        let line = line?;
        in_function |= line.starts_with("define ");
        number += usize::from(in_function);
        in_function &= line != "}";
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn only_functions_count() {
        let text = "; x\n@a = 1\ndefine void @f() {\n  ret void\n}\n\ndeclare void @g()\ndefine void @h() {\n}\n";
        let lines = text.lines().map(|line| Ok(line.to_owned()));
        assert_eq!(count(lines).unwrap(), 5);
    }
}
