//! Checks that the table has every public function that sends a command, and that the documentation of one that writes
//! has the section that callers rely on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::table;

/// Public functions that send no command, and the reason.
const SILENT: [(&str, &str); 20] = [
    ("builder", "checks names"),
    ("build", "checks names"),
    ("collection", "returns the driver's collection"),
    ("children_collection", "returns the driver's collection"),
    ("overflow_collection", "returns the driver's collection"),
    ("revisions_collection", "returns the driver's collection"),
    ("sources_collection", "returns the driver's collection"),
    ("archived_collection", "returns the driver's collection"),
    ("page_size", "returns a setting"),
    ("subset_size", "returns a setting"),
    ("max_children", "returns a setting"),
    ("threshold", "returns a setting"),
    ("newest", "returns a setting"),
    ("indexes", "builds a plan"),
    ("items_pipeline", "builds stages"),
    ("validators", "builds a schema"),
    ("shard_keys", "returns a choice"),
    ("managed", "returns a description"),
    ("pattern", "returns a name"),
    ("namespaces", "returns names"),
];

/// Those of single types.
const SILENT_OF_TYPES: [(&str, &str); 9] = [
    ("counters Counters::add", "adds in memory"),
    ("schema Migrations::new", "sends nothing"),
    ("schema VersionCount::new", "is for fakes"),
    ("archive Found::new", "is for fakes"),
    ("subset Subset::new", "is checked by the builder"),
    ("reference Reference::new", "is checked by the builder"),
    ("bucket Bucket::token", "belongs to a page that was read"),
    ("outlier Counts::total", "adds two numbers"),
    ("outlier ListLength::new", "is for an analysis by the caller"),
];

/// Types whose functions only compute from data that was read before.
const SILENT_TYPES: [&str; 2] = ["bucket Totals", "outlier Analysis"];

/// What the name of a function that writes begins with, as `cargo xtask book` requires.
const WRITES: [&str; 22] = [
    "insert", "update", "replace", "upsert", "delete", "keep", "add", "append", "push", "remove", "set", "clear",
    "reorder", "end", "restore", "refresh", "repair", "follow", "migrate", "ensure", "flush", "run",
];

#[test]
fn the_table_has_every_public_operation() {
    let table = table();
    let operations = table
        .suites
        .iter()
        .flat_map(|suite| suite.operations.iter().map(|one| (suite.of_crate, one.call)));
    let calls = operations.flat_map(|(of_crate, call)| call.split(" + ").map(move |call| format!("{of_crate} {call}")));
    let covered: BTreeSet<String> = calls.collect();

    let public = public();
    let missing: Vec<&String> = public
        .keys()
        .filter(|name| !covered.contains(*name) && !is_silent(name))
        .collect();
    assert!(
        missing.is_empty(),
        "the fault table has no operation for these functions: {missing:#?}"
    );
    let unknown: Vec<&String> = covered.iter().filter(|name| !public.contains_key(*name)).collect();
    assert!(
        unknown.is_empty(),
        "the fault table has operations for functions that do not exist: {unknown:#?}"
    );
}

#[test]
fn every_public_operation_that_writes_documents_its_cancel_safety() {
    let public = public();
    let operations = public.iter().filter(|(name, _)| !is_silent(name) && writes(name));
    let missing: Vec<&String> = operations
        .filter(|(_, docs)| !docs.lines().any(|line| line == "# Cancel safety"))
        .map(|(name, _)| name)
        .collect();
    assert!(
        missing.is_empty(),
        "these functions have no section `# Cancel safety`: {missing:#?}"
    );
}

fn writes(name: &str) -> bool {
    let (_, function) = name.rsplit_once("::").unwrap();
    let verb = function.split('_').next().unwrap_or_default();
    WRITES.contains(&verb)
}

fn is_silent(name: &str) -> bool {
    let (of_type, function) = name.rsplit_once("::").unwrap();
    SILENT_TYPES.contains(&of_type)
        || SILENT.iter().any(|(silent, _)| *silent == function)
        || SILENT_OF_TYPES.iter().any(|(silent, _)| *silent == name)
}

/// Returns the public functions of all patterns, with their documentation.
fn public() -> BTreeMap<String, String> {
    let mut public = BTreeMap::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let of_trait = std::fs::read_to_string(crates.join("core/src/repository.rs")).unwrap();
    let lines: Vec<&str> = of_trait.lines().collect();
    for (pattern, repository) in [
        ("bucket", "BucketRepository"),
        ("outlier", "OutlierRepository"),
        ("subset", "SubsetRepository"),
        ("embedded", "EmbeddedRepository"),
        ("history", "HistoryRepository"),
        ("intervals", "IntervalRepository"),
        ("reference", "ReferenceRepository"),
        ("schema", "SchemaRepository"),
        ("archive", "Archive"),
        ("archive-files", "FileArchive"),
        ("archive", "Trash"),
        ("counters", "Counters"),
    ] {
        functions(&crates.join(pattern).join("src"), pattern, &mut public);
        for (number, line) in lines.iter().enumerate() {
            if let Some((name, _)) = line.strip_prefix("    fn ").and_then(|line| line.split_once('(')) {
                public.insert(
                    format!("{pattern} {repository}::{name}"),
                    documentation(&lines[..number]),
                );
            }
        }
    }
    let of_macro = std::fs::read_to_string(crates.join("core/src/migration/options.rs")).unwrap();
    let (above, _) = of_macro.split_once("pub fn plan(").unwrap();
    let documentation = documentation(&above.trim_end().lines().collect::<Vec<_>>());
    let plans = public.iter_mut().filter(|(name, _)| name.ends_with("::plan"));
    plans.for_each(|(_, of_plan)| {
        if of_plan.is_empty() {
            of_plan.clone_from(&documentation);
        }
    });
    assert!(public.len() > 60, "{public:?}");
    public
}

/// Collects the public functions of all files except setters, as `pattern Type::function`. A setter takes `mut self`.
fn functions(folder: &Path, pattern: &str, found: &mut BTreeMap<String, String>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, pattern, found);
            continue;
        }
        let mut of_type = String::new();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            if line.starts_with("impl") {
                of_type = type_of(line);
            }
            // A migration has a plan by its macro.
            let in_macro = || {
                lines[..number]
                    .iter()
                    .rev()
                    .take(4)
                    .any(|line| line.ends_with("migration! {"))
            };
            if let Some(name) = line.strip_prefix("    pub struct ").filter(|_| in_macro()) {
                let name = name.split('<').next().unwrap_or_default();
                found.insert(format!("{pattern} {name}::plan"), String::new());
            }
            let Some(signature) = line.trim_start().strip_prefix("pub fn ") else {
                continue;
            };
            let name: String = signature
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let receiver = match signature.trim_end().ends_with('(') {
                true => lines[number + 1],
                false => signature,
            };
            if !receiver.contains("mut self") {
                found.insert(format!("{pattern} {of_type}::{name}"), documentation(&lines[..number]));
            }
        }
    }
}

/// Returns the documentation of the item after these lines.
fn documentation(lines: &[&str]) -> String {
    let above = lines.iter().rev().map(|line| line.trim_start());
    let mut docs: Vec<&str> = above
        .take_while(|line| line.starts_with("///") || line.starts_with("#["))
        .filter_map(|line| line.strip_prefix("///"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    docs.reverse();
    docs.join("\n")
}

/// Returns `BucketRepository` for `impl<K: Key, T> BucketRepository<K, T> {`.
fn type_of(line: &str) -> String {
    let mut depth = 0;
    let mut rest = line.strip_prefix("impl").unwrap();
    for (at, character) in rest.char_indices() {
        match character {
            '<' => depth += 1,
            '>' if !rest[..at].ends_with('-') => depth -= 1,
            ' ' if depth == 0 => {
                rest = &rest[at..];
                break;
            }
            _ => {}
        }
    }
    let name = rest.trim_start();
    name.chars().take_while(|c| c.is_alphanumeric()).collect()
}
