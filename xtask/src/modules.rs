//! The check of module cycles, of calls of the driver, of globs, and of file lengths.
//!
//! A module uses another if an import, a glob, or a path in its code names it, by `crate::`, `super::`, `self::` or as a
//! submodule. A path through a re-export names the module that defines the item. Two modules that use each other, directly or
//! through others, cannot be understood one after the other, so cycles are refused, in every target of the workspace. The
//! same holds for two modules of one parent with all their submodules, such as `catalog` and `migration`: neither folder
//! could be understood first.
//!
//! These are no uses:
//!
//! - The declaration of a submodule, and its re-export by a module that does not name the item otherwise. A module with
//!   nothing else, such as most crate roots, is the table of contents of its submodules, which may use each other's items
//!   through it.
//! - What unit tests name, which are below `#[cfg(test)]`.

mod graph;
mod source;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::graph::{Graph, Tree, cycles, siblings};
use crate::msrv::of_array;
use crate::process::{PATTERNS, cargo, output};

/// The methods of the driver that send a command. `find` and `drop` are methods of other types too.
const SENDING: [&str; 26] = [
    "aggregate",
    "bulk_write",
    "count_documents",
    "create_collection",
    "create_index",
    "create_indexes",
    "delete_many",
    "delete_one",
    "distinct",
    "drop_index",
    "estimated_document_count",
    "find_one",
    "find_one_and_delete",
    "find_one_and_replace",
    "find_one_and_update",
    "insert_many",
    "insert_one",
    "list_collection_names",
    "list_collections",
    "list_indexes",
    "replace_one",
    "run_command",
    "start_session",
    "update_many",
    "update_one",
    "watch",
];
/// The most lines of a file.
const MOST_LINES: usize = 450;

/// Checks all crates.
pub(crate) fn check() -> Result<()> {
    let mut problems = Vec::new();
    for root in roots()? {
        let tree = Tree::read(&root)?;
        let graph = tree.graph();
        // A folder of tests is no module with a subject: the tests of two patterns can use each other's parts.
        let has_folders = !root.starts_with("tests");
        let of_folders = siblings(&graph);
        for graph in [Some(&graph), Some(&of_folders).filter(|_| has_folders)]
            .into_iter()
            .flatten()
        {
            problems.extend(cycles(graph).iter().map(|cycle| text(&root, graph, cycle)));
        }
        if PATTERNS
            .iter()
            .any(|name| root.starts_with(format!("crates/{name}/src")))
        {
            problems.extend(calls(&root, &tree));
        }
        if root.starts_with("crates") && root.ends_with("src/lib.rs") || root.starts_with("crates/cli/src") {
            problems.extend(globs(&root, &tree));
        }
        println!("{}: {} files", root.display(), tree.files());
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
        println!("no cycles, no globs, and no file over {MOST_LINES} lines");
        return Ok(());
    }
    bail!("{}", problems.join("\n"))
}

/// Returns the root file of each target of the workspace, relative to its folder.
fn roots() -> Result<Vec<PathBuf>> {
    let text = output(&mut cargo(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    let folder = metadata["workspace_root"].as_str().context("no workspace")?;
    let mut roots = Vec::new();
    for package in of_array(&metadata["packages"])? {
        for target in of_array(&package["targets"])? {
            let root = target["src_path"].as_str().context("a target without a file")?;
            roots.push(Path::new(root).strip_prefix(folder)?.to_owned());
        }
    }
    Ok(roots)
}

/// Describes the calls of the driver.
fn calls(root: &Path, tree: &Tree) -> Vec<String> {
    let calls = tree.methods().flat_map(|(module, called)| {
        let sending = SENDING.iter().filter(|method| called.contains(**method));
        sending.map(move |method| (module, method))
    });
    calls
        .map(|(module, method)| {
            let (root, module) = (root.display(), name(module));
            format!("{root}: {module} calls {method}(..) of the driver: use core's `Conn`")
        })
        .collect()
}

/// Describes the globs, which hide where a name comes from. One of the kinds of errors serves links of the documentation.
fn globs(root: &Path, tree: &Tree) -> Vec<String> {
    let globs = tree
        .globs()
        .filter(|(_, path)| path.last().is_none_or(|name| name != "ErrorKind"));
    globs
        .map(|(module, path)| {
            let (root, module, path) = (root.display(), name(module), path.join("::"));
            format!("{root}: {module} imports {path}::*: name what it uses")
        })
        .collect()
}

/// Describes a cycle by its modules, with a path for each use.
fn text(root: &Path, graph: &Graph, cycle: &BTreeSet<&String>) -> String {
    let mut text = format!("{}: these modules form a cycle:", root.display());
    for from in cycle {
        let used = graph[*from].iter().filter(|(target, _)| cycle.contains(target));
        let used: Vec<String> = used
            .map(|(target, path)| format!("{} by {path}", name(target)))
            .collect();
        text.push_str(&format!("\n    {} uses {}", name(from), used.join(", ")));
    }
    text
}

fn name(module: &str) -> &str {
    if module.is_empty() { "the root" } else { module }
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
