//! The check of module cycles and file lengths.
//!
//! A module depends on another if it names it in a path that starts with `crate::` or `super::`. Re-exports of a crate
//! root and declarations of submodules are no dependencies. Two modules that depend on each other cannot be understood
//! one after the other, so cycles are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The crates whose modules must not form cycles.
const CRATES: [&str; 10] = [
    "core",
    "bucket",
    "outlier",
    "subset",
    "embedded",
    "history",
    "reference",
    "derive",
    "cli",
    "testkit",
];
/// The most lines of a file.
const MOST_LINES: usize = 450;

/// The dependencies of each module, by its path such as `action::append`.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Checks all crates.
pub(crate) fn check() -> Result<()> {
    let mut problems = Vec::new();
    for name in CRATES {
        let source = Path::new("crates").join(name).join("src");
        let graph = graph(&source)?;
        for cycle in cycles(&graph) {
            problems.push(format!(
                "crates/{name}: these modules form a cycle: {}",
                cycle.join(", ")
            ));
        }
        println!("crates/{name}: {} modules", graph.len());
    }
    let mut files = Vec::new();
    for folder in ["crates", "tests", "xtask", "examples"] {
        rust_files(Path::new(folder), &mut files)?;
    }
    for file in files {
        let lines = fs::read_to_string(&file)?.lines().count();
        if lines > MOST_LINES {
            problems.push(format!("{}: {lines} lines, more than {MOST_LINES}", file.display()));
        }
    }
    if problems.is_empty() {
        println!("no cycles, and no file over {MOST_LINES} lines");
        return Ok(());
    }
    bail!("{}", problems.join("\n"))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

/// Returns the module that a file defines; an empty path for a crate root.
fn module(source: &Path, file: &Path) -> String {
    let relative = file.strip_prefix(source).unwrap_or(file).with_extension("");
    let names: Vec<String> = relative
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    match names.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["lib" | "main"] => String::new(),
        [parents @ .., "mod"] => parents.join("::"),
        all => all.join("::"),
    }
}

fn graph(source: &Path) -> Result<Graph> {
    let mut files = Vec::new();
    rust_files(source, &mut files)?;
    let modules: BTreeSet<String> = files.iter().map(|file| module(source, file)).collect();
    let reexports = reexports(source)?;
    let mut graph = Graph::new();
    for file in &files {
        let from = module(source, file);
        let text = fs::read_to_string(file)?;
        // Unit tests may use what they like.
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let mut targets = BTreeSet::new();
        for path in paths(code, &from) {
            // An item that the crate root re-exports is one of the module that defines it.
            let path = reexports.get(&path).unwrap_or(&path);
            let target = nearest(&modules, path);
            // A module may name itself, and its own submodules' items that it re-exports.
            let is_own = target == from || target.starts_with(&format!("{from}::"));
            if !is_own && !from.is_empty() {
                targets.insert(target);
            }
        }
        graph.insert(from, targets);
    }
    Ok(graph)
}

/// Returns the items that the root of a crate re-exports, each with its path.
fn reexports(source: &Path) -> Result<BTreeMap<String, String>> {
    let root = source.join("lib.rs");
    if !root.exists() {
        return Ok(BTreeMap::new());
    }
    let code = fs::read_to_string(root)?.replace("pub use ", "crate::");
    let paths = paths(&code, "").into_iter();
    Ok(paths
        .filter_map(|path| Some((path.rsplit_once("::")?.1.to_owned(), path.clone())))
        .collect())
}

/// Returns the paths, without `crate::`, that code in a module names.
fn paths(code: &str, from: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    for (start, prefix) in [("crate::", ""), ("super::", parent(from))] {
        for (at, _) in code.match_indices(start) {
            let is_part = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$');
            if is_part {
                continue;
            }
            let mut base = prefix.to_owned();
            let mut rest = &code[at + start.len()..];
            while let Some(more) = rest.strip_prefix("super::") {
                base = parent(&base).to_owned();
                rest = more;
            }
            expand(rest, &base, &mut found);
        }
    }
    found
}

/// Adds the paths of a use tree, such as `a::{b, c::D}`.
fn expand(tree: &str, base: &str, found: &mut Vec<String>) {
    let join = |name: &str| match base {
        "" => name.to_owned(),
        base => format!("{base}::{name}"),
    };
    let tree = tree.trim_start();
    if let Some(inner) = tree.strip_prefix('{') {
        let mut depth = 0;
        let mut start = 0;
        for (at, c) in inner.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    expand(&inner[start..at], base, found);
                    return;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&inner[start..at], base, found);
                    start = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let length = tree
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(tree.len());
    let (name, rest) = tree.split_at(length);
    if name.is_empty() {
        return;
    }
    match rest.strip_prefix("::") {
        Some(rest) => expand(rest, &join(name), found),
        None if name == "self" => found.push(base.to_owned()),
        None => found.push(join(name)),
    }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// Returns the module that defines an item: the longest prefix of its path that is a module.
fn nearest(modules: &BTreeSet<String>, path: &str) -> String {
    let mut candidate = path;
    while !candidate.is_empty() && !modules.contains(candidate) {
        candidate = parent(candidate);
    }
    candidate.to_owned()
}

/// Returns the sets of modules that depend on each other.
fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let reachable = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&String> = graph.get(from).into_iter().flatten().collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(graph.get(next).into_iter().flatten());
            }
        }
        seen
    };
    let all: BTreeMap<&String, BTreeSet<&String>> = graph.keys().map(|from| (from, reachable(from))).collect();
    let mut found = BTreeSet::new();
    for (from, targets) in &all {
        if targets.contains(from) {
            let cycle = targets
                .iter()
                .filter(|target| all.get(*target).is_some_and(|back| back.contains(from)));
            found.insert(cycle.map(|module| (*module).clone()).collect::<Vec<_>>());
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Graph, cycles, nearest, paths};

    #[test]
    fn paths_of_use_trees_are_found() {
        let code = "use crate::write::{Write, start::{self, Start}};\nuse super::query;\n/// crate::doc\nlet x = crate::form::id(1); other_crate::a; $crate::b;";
        let found: BTreeSet<String> = paths(code, "action::append").into_iter().collect();
        let expected = [
            "write::Write",
            "write::start",
            "write::start::Start",
            "action::query",
            "form::id",
        ];
        assert_eq!(found, expected.map(str::to_owned).into());
    }

    #[test]
    fn the_module_of_an_item_is_the_longest_prefix() {
        let modules: BTreeSet<String> = ["", "write", "write::start"].map(str::to_owned).into();
        assert_eq!(nearest(&modules, "write::start::Start"), "write::start");
        assert_eq!(nearest(&modules, "Repository"), "");
    }

    #[test]
    fn a_cycle_is_found_once() {
        let graph: Graph = [("a", vec!["b"]), ("b", vec!["c"]), ("c", vec!["b"]), ("d", vec!["a"])]
            .map(|(from, to)| (from.to_owned(), to.into_iter().map(str::to_owned).collect()))
            .into();
        assert_eq!(cycles(&graph), [vec!["b".to_owned(), "c".to_owned()]]);
    }
}
