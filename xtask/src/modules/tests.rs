use std::fs;

use super::graph::{Graph, Tree, cycles, siblings};

/// Writes a crate of these files. Returns its modules.
fn tree(files: &[(&str, &str)]) -> Tree {
    let folder = tempfile::tempdir().unwrap();
    for (name, code) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, code).unwrap();
    }
    Tree::read(&folder.path().join("lib.rs")).unwrap()
}

fn found(graph: &Graph) -> Vec<String> {
    let cycle = |cycle: std::collections::BTreeSet<&String>| cycle.into_iter().cloned().collect::<Vec<_>>().join(" ");
    cycles(graph).into_iter().map(cycle).collect()
}

/// Returns the cycles of files, and those of modules with the same parent.
fn both(files: &[(&str, &str)]) -> [Vec<String>; 2] {
    let graph = tree(files).graph();
    [found(&graph), found(&siblings(&graph))]
}

#[test]
fn each_kind_of_path_is_a_use() {
    let declared = ("lib.rs", "mod a;\nmod b;");
    let back = ("b.rs", "use crate::a::A;\npub struct B;\npub mod c { pub struct C; }");
    for code in [
        "use crate::b::B;",
        "use super::b::B as Other;",
        "use crate::{b::{c::{self, C}}};",
        "use super::b::*;",
        "pub use crate::b::c::*;",
        "pub use super::b;",
        "fn f() { let b = crate::b::B; }",
        "type F = fn() -> super::b::c::C;",
        "fn f(c: self::super::b::c::C) {}",
        "mod block { use super::super::b::B; }",
        "fn f() { use crate::b::B; }",
    ] {
        let a = format!("{code}\npub struct A;");
        let found = both(&[declared, ("a.rs", &a), back]);
        assert_eq!(found, [vec!["a b"], vec!["a b"]], "{code}");
    }
    for code in [
        "// crate::b::B",
        "const A: &str = \"crate::b::B\";",
        "use other::b::B;",
        "use other::{crate_b::b, super_b};",
        "fn f() { let b = other::crate::b; $crate::b::B }",
        "#[cfg(test)]\nmod tests { use crate::b::B; }",
        "#[cfg(test)]\nuse crate::b::{B};\nfn f() {}",
        "pub(in crate::b) struct B;",
    ] {
        let a = format!("{code}\npub struct A;");
        let found = both(&[declared, ("a.rs", &a), back]);
        assert_eq!(found, [vec![""; 0], vec![]], "{code}");
    }
}

#[test]
fn a_parent_and_its_submodule_that_use_each_other_are_a_cycle() {
    let declared = ("lib.rs", "mod a;");
    let child = ("a/b.rs", "use super::A;\npub struct B;");
    for code in [
        "mod b;\nuse self::b::B;\nstruct A;",
        "mod b;\nuse b::B;\nstruct A;",
        "mod b;\nuse b::*;\nstruct A;",
        "mod b;\nstruct A(b::B);",
        "mod b;\npub use self::b::B;\nstruct A(B);",
        "mod b;\npub use self::b::*;\nstruct A(B);",
    ] {
        let found = both(&[declared, ("a.rs", code), child]);
        assert_eq!(found, [vec!["a a::b"], vec![]], "{code}");
    }
    // No use: the table of contents of its submodules.
    for code in [
        "mod b;\npub use self::b::B;\nstruct A;",
        "pub mod b;\nstruct A;",
        "mod b;\npub(crate) use b::*;\nstruct A;",
    ] {
        let found = both(&[declared, ("a.rs", code), child]);
        assert_eq!(found, [vec![""; 0], vec![]], "{code}");
    }
}

#[test]
fn a_path_through_a_reexport_names_the_module_that_defines_the_item() {
    let root = ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::*;");
    let found = both(&[
        root,
        ("a.rs", "use crate::B;\npub struct A;"),
        ("b.rs", "use super::A;\npub struct B;"),
    ]);
    assert_eq!(found, [vec!["a b"], vec!["a b"]]);
}

#[test]
fn a_cycle_through_a_prelude_is_found() {
    let root = ("lib.rs", "mod prelude;\nmod settings;\nmod write;");
    let prelude = ("prelude.rs", "pub(crate) use crate::settings::Settings;");
    let settings = ("settings.rs", "use crate::prelude::*;\npub struct Settings;");
    let write = ("write.rs", "use crate::prelude::*;");
    let found = both(&[root, prelude, settings, write]);
    assert_eq!(found, [vec!["prelude settings"], vec!["prelude settings"]]);
}

/// No file is in a cycle, but neither folder can be understood first.
#[test]
fn two_folders_that_use_each_other_are_a_cycle() {
    let files = [
        ("lib.rs", "mod a;\nmod b;"),
        ("a/mod.rs", "mod low;\nmod high;"),
        ("a/low.rs", "pub struct Low;"),
        ("a/high.rs", "use crate::b::B;"),
        ("b.rs", "use crate::a::low::Low;\npub struct B;"),
    ];
    assert_eq!(both(&files), [vec![], vec!["a b".to_owned()]]);
}

#[test]
fn a_block_is_a_part_of_its_file_and_an_attribute_names_a_file() {
    let files = [
        ("lib.rs", "mod a;\n#[path = \"other/c.rs\"]\nmod b;"),
        ("a.rs", "pub mod block { pub use super::A; }\nstruct A(crate::b::B);"),
        ("other/c.rs", "use crate::a::block::A;\npub struct B;"),
    ];
    assert_eq!(both(&files), [vec!["a b"], vec!["a b"]]);
    assert_eq!(tree(&files).files(), 3);
}

#[test]
fn calls_of_methods_are_found() {
    let code = "async fn f() { conn.list_indexes(); Conn::new().find_one(f); coll.insert_one(d).await; self.x.watch; }\n#[cfg(test)] mod tests { fn g() { c.aggregate() } }";
    let tree = tree(&[("lib.rs", code)]);
    let called: Vec<_> = tree.methods().flat_map(|(_, methods)| methods).collect();
    assert_eq!(called, ["insert_one"]);
}
