//! Every check that a change must pass, step by step.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::ignored::{LONG_TESTS, ignored_tests, with_slow_tests};
use crate::process::{PATTERNS, cargo, output, readme_command, run as run_process};
use crate::{
    book, deny, examples, llvm, long, modules, msrv, package, promises, sentences, size, timed, tutorial, words,
};

/// The features of the facade, beside the patterns.
const FEATURES: [&str; 2] = ["derive", "metrics"];
/// A service that names the driver with its default features.
const DRIVER_DEFAULTS: &str = "tests/driver-defaults/Cargo.toml";
/// Where the documentation of docs.rs is built.
const DOCS_RS: &str = "target/docs-rs";
/// What the benchmarks write beside their diagrams.
const BENCHMARKS: [&str; 14] = [
    "README.md",
    "bucket.json",
    "outlier.md",
    "outlier.json",
    "subset.md",
    "subset.json",
    "history.md",
    "history.json",
    "reference.md",
    "reference.json",
    "schema.md",
    "schema.json",
    "archive.md",
    "archive.json",
];

/// Which steps are run.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Runs only these steps.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Step>,
    /// Runs all steps: also the long ones, which the hosted workflow runs every night, and a maintainer before a release.
    #[arg(long, conflicts_with = "only")]
    full: bool,
}

/// A step of CI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Formatting.
    Format,
    /// The words of prose.
    Words,
    /// The tests that prove the promises of the documentation.
    Promises,
    /// Cycles of modules, and the length of files.
    Modules,
    /// The sizes of the crates in ARCHITECTURE.md.
    Size,
    /// That the dependencies support the oldest Rust that we support.
    Msrv,
    /// Clippy without warnings, also of the tests that need a mongos. It knows the oldest Rust, and refuses what is newer.
    Clippy,
    /// Documentation without warnings.
    Docs,
    /// Documentation as docs.rs builds it, with the features that items need. It compiles the driver again.
    DocsRs,
    /// The book: its summary, copies and links. The tests compile its code.
    Book,
    /// The book as HTML.
    Html,
    /// The tests, as README tells to run them, and the slow ones.
    Tests,
    /// Each feature alone, which compiles the driver again, and a service that names the driver with its default features. The
    /// tests have all of them.
    Features,
    /// The tests that are too long for the step `tests`.
    LongTests,
    /// The examples and what they print.
    Examples,
    /// The commands of the tutorial in the book.
    Tutorial,
    /// The benchmarks and the hazards of recipes, in a short form.
    Benchmarks,
    /// How much code the compiler generates for each crate of the library.
    Llvm,
    /// That the crates can be published, and that each compiles alone.
    Package,
    /// Licences, duplicate crates and sources.
    Deny,
}

/// The steps that only `--full` runs.
const LONG: [Step; 8] = [
    Step::DocsRs,
    Step::Html,
    Step::Features,
    Step::LongTests,
    Step::Benchmarks,
    Step::Llvm,
    Step::Package,
    Step::Deny,
];

const TESTS: &str = "cargo test --workspace";

/// Runs the steps.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut times = Vec::new();
    for step in Step::value_variants() {
        let is_asked = match options.only.is_empty() {
            true => options.full || !LONG.contains(step),
            false => options.only.contains(step),
        };
        if !is_asked {
            continue;
        }
        let name = step.to_possible_value().map(|value| value.get_name().to_owned());
        let name = name.unwrap_or_default();
        println!("\n== {name}");
        let started = Instant::now();
        let ran = run_step(*step);
        let time = started.elapsed();
        println!("{name}: {} s", time.as_secs());
        ran.with_context(|| format!("step {name}"))?;
        times.push((name, time));
    }
    println!("\n== all passed");
    for (name, time) in times {
        println!("{:>5} s  {name}", time.as_secs());
    }
    Ok(())
}

fn run_step(step: Step) -> Result<()> {
    match step {
        Step::Format => run_process(&mut cargo(["fmt", "--all", "--check"])),
        Step::Words => words::check().and_then(|()| sentences::run(&sentences::Options::default())),
        Step::Promises => promises::check(),
        Step::Modules => modules::check(),
        Step::Size => size::run(&size::Options::default()),
        Step::Clippy => {
            let all = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet"];
            let with_cluster = ["--features", "integration-tests/cluster", "--", "-D", "warnings"];
            run_process(cargo(all).args(with_cluster))
        }
        Step::Docs => {
            let all = ["doc", "--workspace", "--lib", "--no-deps", "--locked", "--quiet"];
            run_process(cargo(all).env("RUSTDOCFLAGS", "-D warnings"))
        }
        Step::DocsRs => check_docs_rs(),
        Step::Book => book::check(&book::Options::default()),
        Step::Html => book::build(),
        Step::Features => check_features(),
        Step::Tests => {
            let mut test = readme_command(TESTS)?;
            // All libraries, also that of the models, and of the programs those with tests.
            test.args(["--no-fail-fast", "--lib", "--tests", "--"]);
            timed::run_tests(test.args(with_slow_tests()?))?;
            // Alone, because `--include-ignored` would run code that needs data.
            run_process(readme_command(TESTS)?.arg("--doc"))
        }
        Step::LongTests => run_long_tests(),
        Step::Examples => examples::run(),
        Step::Tutorial => tutorial::run(),
        Step::Benchmarks => run_benchmarks(),
        Step::Llvm => llvm::check(),
        Step::Msrv => msrv::check_dependencies(),
        Step::Package => package::check(),
        Step::Deny => deny::check_offline(),
    }
}

/// docs.rs has a nightly compiler, whose features this variable allows to the stable one.
fn check_docs_rs() -> Result<()> {
    let facade = [
        "doc",
        "--package",
        "mongo-patterns",
        "--package",
        "mongo-patterns-core",
        "--no-deps",
        "--locked",
        "--quiet",
    ];
    let features = [
        "--features",
        "mongo-patterns/archive-files,mongo-patterns/derive,mongo-patterns/metrics",
    ];
    let mut doc = cargo(facade);
    doc.args(features).args(["--target-dir", DOCS_RS]);
    run_process(
        doc.env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTDOCFLAGS", "--cfg docsrs -D warnings"),
    )?;
    let page = Path::new(DOCS_RS).join("doc/mongo_patterns/index.html");
    let text = fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    for feature in PATTERNS.into_iter().chain(FEATURES) {
        if !text.contains(&format!("Available on crate feature `{feature}` only")) {
            bail!("the documentation of docs.rs does not say that something needs the feature {feature}");
        }
    }
    Ok(())
}

fn check_features() -> Result<()> {
    let facade = [
        "check",
        "--quiet",
        "--locked",
        "--package",
        "mongo-patterns",
        "--no-default-features",
        "--all-targets",
    ];
    run_process(&mut cargo(facade))?;
    for feature in PATTERNS.into_iter().chain(FEATURES) {
        run_process(cargo(facade).args(["--features", feature]))?;
    }
    let service = ["check", "--quiet", "--manifest-path", DRIVER_DEFAULTS];
    run_process(cargo(service).args(["--target-dir", "target/driver-defaults"]))
}

/// The long tests, and more calls of those that run any number of them.
fn run_long_tests() -> Result<()> {
    let mut test = cargo(["test", "--workspace", "--locked", "--lib", "--tests", "--", "--ignored"]);
    timed::run_tests(test.args(ignored_tests(LONG_TESTS)?))?;
    long::check_models(10_000)
}

fn run_benchmarks() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bench = ["run", "--quiet", "--locked", "--bin", "mongo-patterns-bench", "--"];
    output(cargo(bench).arg("--quick").arg("--out").arg(folder.path()))?;
    // It fails if a row of ours has a hazard.
    run_process(cargo(bench).args(["hazards", "--quick"]))?;
    let mut expected: BTreeSet<String> = BENCHMARKS.into_iter().map(str::to_owned).collect();
    for entry in fs::read_dir(folder.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            expected.extend(diagrams(&fs::read_to_string(path)?));
        }
    }
    for file in expected {
        let path: &Path = &folder.path().join(&file);
        let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
        if length == 0 {
            bail!("the benchmarks did not write {file}");
        }
    }
    Ok(())
}

/// The files of diagrams that a page shows.
fn diagrams(page: &str) -> impl Iterator<Item = String> {
    let words = page.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.'));
    let files = words.filter(|word| word.ends_with(".svg"));
    files.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::diagrams;

    #[test]
    fn the_diagrams_of_a_page_are_found() {
        let page = "![pages](bucket-pages-1.svg)\n<img src=\"subset-insert-2.svg\"> and no svg";
        let found: Vec<String> = diagrams(page).collect();
        assert_eq!(found, ["bucket-pages-1.svg", "subset-insert-2.svg"]);
    }
}
