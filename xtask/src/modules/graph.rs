//! The modules of a crate, and which of them depend on each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::source::{Import, Module, Source, read};
use super::tokens::tokens;

/// The modules of a crate, by their paths such as `action::append`. That of the root is empty.
pub(super) struct Tree {
    modules: BTreeMap<String, Module>,
    /// Those that are blocks in the file of their parent.
    blocks: BTreeSet<String>,
}

/// The modules that each module uses, each with a path by which it is named.
pub(super) type Graph = BTreeMap<String, BTreeMap<String, String>>;

impl Tree {
    /// Reads the modules of a crate from the file of its root.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self {
            modules: BTreeMap::new(),
            blocks: BTreeSet::new(),
        };
        let folder = root.parent().context("a root without a folder")?;
        tree.add_file(String::new(), root, folder)?;
        Ok(tree)
    }

    /// Returns the number of files.
    pub(super) fn files(&self) -> usize {
        self.modules.len() - self.blocks.len()
    }

    /// Returns the modules with the methods that they call.
    pub(super) fn methods(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.modules
            .iter()
            .map(|(path, module)| (path.as_str(), &module.methods))
    }

    /// Returns the modules with the paths of their globs.
    pub(super) fn globs(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.modules.iter().flat_map(|(path, module)| {
            let globs = module.imports.iter().filter(|import| import.name.is_none());
            globs.map(|import| (path.as_str(), import.path.as_slice()))
        })
    }

    /// Adds the module of a file. Those of its submodules are below the folder.
    fn add_file(&mut self, path: String, file: &Path, folder: &Path) -> Result<()> {
        let code = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        self.add(path, read(&tokens(&code)), file, folder)
    }

    fn add(&mut self, path: String, mut module: Module, file: &Path, folder: &Path) -> Result<()> {
        for child in &mut module.children {
            let name = &child.name;
            let (path, folder) = (join(&path, name), folder.join(name));
            match std::mem::replace(&mut child.source, Source::File(None)) {
                Source::Block(block) => {
                    self.blocks.insert(path.clone());
                    self.add(path, block, file, &folder)?;
                }
                Source::File(Some(other)) => {
                    let file = file.with_file_name(other);
                    let folder = file.parent().unwrap_or(&file).to_owned();
                    self.add_file(path, &file, &folder)?;
                }
                Source::File(None) => {
                    let candidates: [PathBuf; 2] = [folder.with_extension("rs"), folder.join("mod.rs")];
                    let Some(file) = candidates.iter().find(|file| file.exists()) else {
                        bail!("{}: the file of the module {name} is missing", file.display());
                    };
                    self.add_file(path, file, &folder)?;
                }
            }
        }
        self.modules.insert(path, module);
        Ok(())
    }

    /// Returns the graph of the files. A block is a part of its file.
    pub(super) fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for (path, module) in &self.modules {
            let file = self.file_of(path);
            let used = graph.entry(file.to_owned()).or_default();
            let imports = module.imports.iter();
            let imports = imports.filter(|import| !self.is_reexport(path, module, import));
            for named in imports.map(|import| &import.path).chain(&module.paths) {
                let target = self.target(path, named);
                if let Some(target) = target.as_deref().map(|target| self.file_of(target))
                    && target != file
                {
                    used.entry(target.to_owned()).or_insert_with(|| named.join("::"));
                }
            }
        }
        graph
    }

    fn file_of<'m>(&self, mut module: &'m str) -> &'m str {
        while self.blocks.contains(module) {
            module = parent(module);
        }
        module
    }

    /// Returns whether an import only passes on an item of a submodule, which the module itself does not name.
    fn is_reexport(&self, from: &str, module: &Module, import: &Import) -> bool {
        let Some(target) = self.target(from, &import.path).filter(|_| import.is_export) else {
            return false;
        };
        let is_named = match &import.name {
            Some(name) => module.names.contains(name),
            None => self.modules[&target]
                .items
                .iter()
                .any(|item| module.names.contains(item)),
        };
        is_below(&target, from) && !is_named
    }

    /// Returns the module that defines what a path in a module names, or `None` for another crate.
    fn target(&self, from: &str, path: &[String]) -> Option<String> {
        let mut absolute = self.absolute(from, path)?;
        // No chain of imports is longer.
        for _ in 0..32 {
            let (module, rest) = self.split(&absolute);
            let (Some(name), Some(imports)) = (rest.first(), self.modules.get(&module).map(|module| &module.imports))
            else {
                return Some(module);
            };
            let import = imports
                .iter()
                .find(|import| import.name.as_ref() == Some(name) && import.path != rest);
            let next = import.and_then(|import| self.absolute(&module, &import.path));
            match next {
                Some(next) => absolute = next.into_iter().chain(rest[1..].iter().cloned()).collect(),
                None => return Some(self.of_glob(&module, imports, name).unwrap_or(module)),
            }
        }
        Some(self.split(&absolute).0)
    }

    /// Returns the module from which a glob imports an item.
    fn of_glob(&self, module: &str, imports: &[Import], name: &str) -> Option<String> {
        let globs = imports.iter().filter(|import| import.name.is_none());
        globs
            .filter_map(|import| Some(self.split(&self.absolute(module, &import.path)?).0))
            .find(|target| self.modules[target].items.contains(name))
    }

    /// Returns a path from the root of the crate.
    fn absolute(&self, from: &str, path: &[String]) -> Option<Vec<String>> {
        let first = path.first()?;
        let (mut base, mut rest) = match first.as_str() {
            "crate" => (String::new(), &path[1..]),
            "self" | "super" => (from.to_owned(), path),
            name if self.modules[from].children.iter().any(|child| child.name == name) => (from.to_owned(), path),
            _ => return None,
        };
        while let Some(part) = rest.first().filter(|part| ["self", "super"].contains(&part.as_str())) {
            if part == "super" {
                base = parent(&base).to_owned();
            }
            rest = &rest[1..];
        }
        let base = base.split("::").filter(|part| !part.is_empty()).map(str::to_owned);
        Some(base.chain(rest.iter().cloned()).collect())
    }

    /// Splits a path into that of a module and the rest.
    fn split<'p>(&self, path: &'p [String]) -> (String, &'p [String]) {
        let lengths = (0..=path.len()).rev();
        let module = lengths.map(|length| (path[..length].join("::"), &path[length..]));
        let mut known = module.filter(|(module, _)| self.modules.contains_key(module));
        known.next().unwrap_or_default()
    }
}

fn join(module: &str, name: &str) -> String {
    match module {
        "" => name.to_owned(),
        module => format!("{module}::{name}"),
    }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn is_below(module: &str, ancestor: &str) -> bool {
    let rest = module.strip_prefix(ancestor);
    !module.is_empty() && rest.is_some_and(|rest| ancestor.is_empty() || rest.starts_with("::"))
}

/// Returns the graph of modules with the same parent: one uses another if a module in it uses one in the other.
pub(super) fn siblings(graph: &Graph) -> Graph {
    let mut found = Graph::new();
    for (from, used) in graph {
        for (target, path) in used {
            let common = from
                .split("::")
                .zip(target.split("::"))
                .take_while(|(a, b)| a == b)
                .count();
            let ancestor = |module: &str| {
                let names: Vec<&str> = module.split("::").take(common + 1).collect();
                (names.len() > common && !module.is_empty()).then(|| names.join("::"))
            };
            if let (Some(from_sibling), Some(sibling)) = (ancestor(from), ancestor(target)) {
                found.entry(sibling.clone()).or_default();
                let used = found.entry(from_sibling).or_default();
                used.entry(sibling).or_insert_with(|| format!("{path} in {from}"));
            }
        }
    }
    found
}

/// Returns the sets of modules that depend on each other.
pub(super) fn cycles(graph: &Graph) -> BTreeSet<BTreeSet<&String>> {
    let reachable = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&String> = graph[from].keys().collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(graph[next].keys());
            }
        }
        seen
    };
    let all: BTreeMap<&String, BTreeSet<&String>> = graph.keys().map(|from| (from, reachable(from))).collect();
    let of_cycles = all.iter().filter(|(from, targets)| targets.contains(*from));
    of_cycles
        .map(|(from, targets)| {
            targets
                .iter()
                .copied()
                .filter(|target| all[target].contains(from))
                .collect()
        })
        .collect()
}
