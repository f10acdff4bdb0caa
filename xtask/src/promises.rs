//! The check that every promise of the documentation names the tests that prove it, and that these exist.
//!
//! A promise is a cell of a table, a paragraph or an item of a list in a section `Guarantees`: of the book's page, and of
//! the documentation of the pattern crates. A comment names its tests, separated by commas: `<!-- proof: TESTS -->` at
//! its end in Markdown, and a line `// proof: TESTS` after it in Rust. A name is that of the test harness, such as
//! `subset::concurrent::an_insert_during_delete_parent_leaves_no_review`, and begins with the crate for tests of others.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::process::{PATTERNS, tracked_files};

const PAGE: &str = "book/src/guarantees.md";
/// The modules that have guarantees, beside the patterns: the sections `# Guarantees` name their tests.
const MODULES: [&str; 2] = ["crates/core/src/lease.rs", "crates/core/src/pages.rs"];
const BEGIN: &str = "<!-- proof:";
const END: &str = "-->";
const LINE: &str = "// proof:";
/// How many characters of a promise the table has.
const SHOWN: usize = 90;

/// A promise and the tests that its comment names.
#[derive(Debug, PartialEq, Eq)]
struct Promise {
    line: usize,
    text: String,
    tests: Vec<String>,
}

/// Prints the promises with their tests.
///
/// # Errors
/// If one has no test, a test that does not exist, or only tests that `cargo test` does not run.
pub(crate) fn check() -> Result<()> {
    let known = Known::read()?;
    let mut problems = Vec::new();
    let (mut promises, mut proofs) = (0, 0);
    let crates = PATTERNS.iter().map(|name| format!("crates/{name}/src/lib.rs"));
    for file in [PAGE].into_iter().chain(MODULES).map(str::to_owned).chain(crates) {
        let text = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
        let found = match file == PAGE {
            true => in_markdown(&text),
            false => in_rust(&text),
        };
        if found.is_empty() {
            problems.push(format!("{file} has no section of guarantees"));
        }
        println!("\n{file}");
        for promise in found {
            let shown: String = promise.text.chars().take(SHOWN).collect();
            println!("{:>4}  {shown}", promise.line);
            if promise.tests.is_empty() {
                problems.push(format!("{file}:{}: no test is named for `{shown}`", promise.line));
            }
            promises += 1;
            let mut runs = promise.tests.is_empty();
            for test in &promise.tests {
                println!("        {test}");
                proofs += 1;
                match known.get(test) {
                    Some(found) => runs |= !found.is_long,
                    None => problems.push(format!("{file}:{}: there is no test `{test}`", promise.line)),
                }
            }
            if !runs {
                problems.push(format!(
                    "{file}:{}: `cargo xtask ci` runs no test of `{shown}`",
                    promise.line
                ));
            }
        }
    }
    println!("\n{promises} promises, {proofs} proofs");
    match problems.is_empty() {
        true => Ok(()),
        false => bail!("{}", problems.join("\n")),
    }
}

/// The names of test functions, by the module of their file.
struct Known(BTreeMap<String, Vec<Test>>);

#[derive(Debug, PartialEq, Eq)]
struct Test {
    name: String,
    is_long: bool,
}

impl Known {
    fn read() -> Result<Self> {
        let mut known = BTreeMap::new();
        for file in tracked_files()? {
            if let Some(module) = module_of(&file) {
                let text = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
                known.insert(module, tests_in(&text));
            }
        }
        Ok(Self(known))
    }

    fn get(&self, test: &str) -> Option<&Test> {
        let (module, name) = test.rsplit_once("::")?;
        // The module of unit tests is in the file of what it tests.
        let module = module.strip_suffix("::tests").unwrap_or(module);
        self.0.get(module)?.iter().find(|known| known.name == name)
    }
}

/// Returns the module path of a file as the test harness prints it, with the crate before it for others than
/// `integration-tests`.
pub(crate) fn module_of(file: &str) -> Option<String> {
    let path = file.strip_suffix(".rs")?;
    let path = match path.strip_prefix("tests/") {
        Some(path) => path.to_owned(),
        None => path
            .strip_prefix("crates/")?
            .replace("/src/", "/")
            .replace("/tests/", "/"),
    };
    let path = path.strip_suffix("/mod").or(path.strip_suffix("/lib")).unwrap_or(&path);
    Some(path.replace('/', "::"))
}

/// Returns the functions after an attribute such as `#[test]` or `#[tokio::test(...)]`.
fn tests_in(code: &str) -> Vec<Test> {
    let mut tests = Vec::new();
    let (mut is_test, mut is_long) = (false, false);
    for line in code.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        }
        is_long |= line.starts_with("#[ignore = \"long");
        let function = line.trim_start_matches("async ").strip_prefix("fn ");
        if let Some(name) = function.and_then(|function| function.split('(').next()) {
            if is_test {
                let name = name.to_owned();
                tests.push(Test { name, is_long });
            }
            (is_test, is_long) = (false, false);
        }
    }
    tests
}

/// Returns the promises of the section `## Guarantees`: the cells of its tables but those of the first row and column, and
/// its paragraphs.
fn in_markdown(page: &str) -> Vec<Promise> {
    let mut promises = Vec::new();
    let mut paragraph: Option<Promise> = None;
    let section = page.lines().zip(1..).skip_while(|(line, _)| *line != "## Guarantees");
    let section = section.skip(1).take_while(|(line, _)| !line.starts_with('#'));
    let mut rows = 0;
    for (text, line) in section.chain([("", 0)]) {
        let cells = text.strip_prefix('|').and_then(|row| row.strip_suffix('|'));
        if text.is_empty() || cells.is_some() {
            promises.extend(paragraph.take().map(with_tests));
        }
        match cells {
            // A name and a line come before the promises.
            Some(cells) if rows > 1 => {
                let cells = cells.split('|').skip(1).map(str::to_owned);
                let of_row = cells.map(|text| {
                    with_tests(Promise {
                        line,
                        text,
                        tests: Vec::new(),
                    })
                });
                promises.extend(of_row);
            }
            Some(_) => rows += 1,
            None if text.is_empty() => rows = 0,
            None => match &mut paragraph {
                Some(paragraph) => paragraph.text.extend([" ", text]),
                None => {
                    let text = text.to_owned();
                    paragraph = Some(Promise {
                        line,
                        text,
                        tests: Vec::new(),
                    });
                }
            },
        }
    }
    promises
}

/// Moves the names of tests out of the text.
fn with_tests(mut promise: Promise) -> Promise {
    while let Some((before, rest)) = promise.text.split_once(BEGIN) {
        let (names, after) = rest.split_once(END).unwrap_or((rest, ""));
        promise.tests.extend(names_in(names));
        promise.text = format!("{}{}", before.trim_end(), after);
    }
    promise.text = promise.text.trim().to_owned();
    promise
}

fn names_in(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(|name| name.trim().to_owned())
}

/// Returns the items of the section `# Guarantees` of the first documentation in a file. What comes after the items, such
/// as what is not guaranteed, is no promise.
fn in_rust(code: &str) -> Vec<Promise> {
    let mut promises: Vec<Promise> = Vec::new();
    let lines = code.lines().map(str::trim_start).zip(1..);
    let section = lines.skip_while(|(line, _)| *line != "//! # Guarantees").skip(1);
    let section = section.take_while(|(line, _)| !line.starts_with("//! # ") && line.starts_with("//"));
    let mut is_item = false;
    for (text, line) in section {
        if let Some(names) = text.strip_prefix(LINE) {
            if let Some(promise) = promises.last_mut() {
                promise.tests.extend(names_in(names));
            }
            continue;
        }
        let text = text.trim_start_matches("//!");
        if let Some(item) = text.strip_prefix(" - ") {
            let text = item.to_owned();
            promises.push(Promise {
                line,
                text,
                tests: Vec::new(),
            });
            is_item = true;
        } else if let (true, Some(more), Some(promise)) = (is_item, text.strip_prefix("   "), promises.last_mut()) {
            promise.text.extend([" ", more]);
        } else if text.starts_with(" Not guaranteed") {
            break;
        } else {
            is_item = false;
        }
    }
    promises
}

#[cfg(test)]
mod tests {
    use super::{Test, in_markdown, in_rust, module_of, tests_in};

    #[test]
    fn promises_of_a_page_are_cells_and_paragraphs() {
        let page = "text\n## Guarantees\n\n| | a | b |\n|---|---|---|\n| row | one <!-- proof: x::y, z::w --> | two |\n\n\
                    A text\nof two lines. <!-- proof: v::w -->\n\n## Next\n\nother\n";
        let found = in_markdown(page);
        let found: Vec<_> = found
            .iter()
            .map(|found| (found.text.as_str(), found.tests.join(" ")))
            .collect();
        let expected = [("one", "x::y z::w"), ("two", ""), ("A text of two lines.", "v::w")];
        assert_eq!(found, expected.map(|(text, tests)| (text, tests.to_owned())));
    }

    #[test]
    fn promises_of_rust_are_items() {
        let code = "//! # Guarantees\n//!\n//! For all:\n//!\n//! - One, in\n//!   two lines.\n// proof: a::b\n//! - Two.\n//!\n\
                    //! Not guaranteed:\n//!\n//! - Three.\n//!\n//! # Cost\n//! - Four.\n";
        let found = in_rust(code);
        let found: Vec<_> = found
            .iter()
            .map(|found| (found.text.as_str(), found.tests.join(" ")))
            .collect();
        assert_eq!(
            found,
            [("One, in two lines.", "a::b".to_owned()), ("Two.", String::new())]
        );
    }

    #[test]
    fn tests_have_the_names_of_the_harness() {
        assert_eq!(module_of("tests/a/b.rs").as_deref(), Some("a::b"));
        assert_eq!(module_of("tests/a/mod.rs").as_deref(), Some("a"));
        assert_eq!(module_of("crates/cli/tests/a.rs").as_deref(), Some("cli::a"));
        assert_eq!(module_of("crates/core/src/a/b.rs").as_deref(), Some("core::a::b"));
        let code = "#[test]\nfn a() {}\nfn b() {}\n#[tokio::test(x)]\n#[ignore = \"long\"]\nasync fn c() {}\n";
        let tests = [("a", false), ("c", true)].map(|(name, is_long)| Test {
            name: name.to_owned(),
            is_long,
        });
        assert_eq!(tests_in(code), tests);
    }
}
