//! The page "All calls" of the book, written from the documentation of the public methods, and the rules of their grammar.
//!
//! A call is a public method of a repository that sends a command, which its section `# Cost` shows. The page has its first
//! sentence, its result, the first sentence of `# Cost`, and what a dropped call may have done: a write has a section
//! `# Cancel safety`, and a read changes nothing.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, bail};
use syn::{Attribute, Expr, FnArg, GenericArgument, ImplItem, Item, Lit, Meta, PathArguments, ReturnType, Signature};
use syn::{TraitItem, Type, Visibility};

use crate::process::tracked_files;

/// The page.
const PAGE: &str = "book/src/reference/calls.md";
/// The types with calls: the title of their table, their crate and their name.
const TYPES: [(&str, &str, &str); 15] = [
    ("All repositories", "core", "Repository"),
    ("Bucket", "bucket", "BucketRepository"),
    ("Outlier", "outlier", "OutlierRepository"),
    ("Subset", "subset", "SubsetRepository"),
    ("Embedded", "embedded", "EmbeddedRepository"),
    ("History", "history", "HistoryRepository"),
    ("Intervals", "intervals", "IntervalRepository"),
    ("Reference", "reference", "ReferenceRepository"),
    ("Schema versions", "schema", "SchemaRepository"),
    ("Migrations that run once", "schema", "Migrations"),
    ("Archive", "archive", "Archive"),
    ("Trash", "archive", "Trash"),
    ("Archive in files", "archive-files", "FileArchive"),
    ("Counters", "counters", "Counters"),
    ("Pages of any query", "core", "Pages"),
];
/// What a call begins with that changes documents, and what its result is called. Any result if it is empty.
const VERBS: [(&str, &[&str]); 24] = [
    ("insert", &["Inserted", "Recorded", "Begun"]),
    ("update", &["Updated", "Recorded", "Begun"]),
    ("replace", &["Updated", "Recorded", "Begun"]),
    ("upsert", &["Upserted", "Recorded"]),
    ("delete", &["Deleted"]),
    ("keep", &["Deleted"]),
    ("add", &["()", "Updated", "Added"]),
    ("append", &["Appended"]),
    ("push", &["Pushed"]),
    ("remove", &["Removed", "Updated"]),
    ("set", &["Updated"]),
    ("clear", &["Updated"]),
    ("reorder", &["()", "Updated"]),
    ("end", &["Ended"]),
    ("restore", &["Restored", "Moved", "Recorded"]),
    ("refresh", &["Refreshed", "UpdatedSource"]),
    ("repair", &["Repaired"]),
    ("verify", &["Finding", "UnsuitableShardKey"]),
    ("orphans", &["Finding"]),
    ("follow", &["Followed"]),
    ("migrate", &["Migrated"]),
    ("ensure", &["Ensured"]),
    ("flush", &["Flushed"]),
    ("run", &[]),
];
/// The verbs of calls that only read.
const READING_VERBS: [&str; 2] = ["verify", "orphans"];
/// The types of an action that only reads.
const READS: [&str; 14] = [
    "Read",
    "List",
    "Find",
    "Elements",
    "Items",
    "Keys",
    "FindItems",
    "GetPage",
    "ReadTotals",
    "Get",
    "ActionFuture",
    "EnsureIndexes",
    "Verify",
    "VerifyShardKeys",
];

/// A public method that sends a command.
#[derive(Debug)]
struct Call {
    of_type: &'static str,
    name: String,
    arguments: Vec<String>,
    /// The type that the method returns, such as `Write`.
    action: String,
    /// What a caller gets, such as `Deleted`.
    result: String,
    docs: String,
}

/// Writes the page, or compares it with the one in the repository.
///
/// # Errors
/// If it differs, or a call breaks a rule.
pub(crate) fn check(write: bool) -> Result<()> {
    let calls = read()?;
    let problems: Vec<String> = calls.iter().filter_map(problem).collect();
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    let page = page(&calls)?;
    if write {
        return fs::write(PAGE, page).with_context(|| format!("writing {PAGE}"));
    }
    let stored = fs::read_to_string(PAGE).with_context(|| format!("reading {PAGE}"))?;
    if stored != page {
        bail!("{PAGE} differs from the documentation of the calls: run `cargo xtask book --write`");
    }
    println!("{} calls", calls.len());
    Ok(())
}

/// Returns what a call does against the rules that CONTRIBUTING has.
fn problem(call: &Call) -> Option<String> {
    let name = format!("{}::{}", call.of_type, call.name);
    let has = |section: &str| call.docs.lines().any(|line| line.trim() == section);
    if !has("# Cost") {
        return Some(format!("{name} has no section `# Cost`"));
    }
    let verb = call.name.split('_').next().unwrap_or_default();
    let Some((_, results)) = VERBS.iter().find(|(known, _)| *known == verb) else {
        let is_read = READS.contains(&call.action.as_str());
        return (!is_read).then(|| format!("{name} writes, without a verb of writes"));
    };
    if !READING_VERBS.contains(&verb) && !has("# Cancel safety") {
        return Some(format!("{name} changes documents without `# Cancel safety`"));
    }
    let fits = results.is_empty() || results.iter().any(|result| call.result.contains(result));
    (!fits).then(|| format!("{name} returns {}, and not {}", call.result, results.join(" or ")))
}

fn page(calls: &[Call]) -> Result<String> {
    let mut page = String::from(
        "<!-- written by `cargo xtask book --write` -->\n# All calls\n\nEvery call that sends a command. As in the driver, a call is an action: set its options, then await it, or read its `stream()`.\nA *page* has tokens for the next and the previous one; `.page()` reads one. The cost is in round trips. *Safe* means that a call that is dropped before its end changes nothing. What is true of all calls is in the [documentation of actions](https://docs.rs/mongo-patterns/latest/mongo_patterns/action/).\n",
    );
    for (title, _, of_type) in TYPES {
        let group: Vec<&Call> = calls.iter().filter(|call| call.of_type == of_type).collect();
        write!(
            page,
            "\n## {title}\n\n| call | | result | cost | dropped |\n|---|---|---|---|---|\n"
        )?;
        for call in group {
            let arguments = call.arguments.join(", ");
            writeln!(
                page,
                "| `{}({arguments})` | {} | {} | {} | {} |",
                call.name,
                sentence(&call.docs),
                cell(&call.result),
                sentence(section(&call.docs, "# Cost")),
                dropped(section(&call.docs, "# Cancel safety")),
            )?;
        }
    }
    Ok(page)
}

fn cell(result: &str) -> String {
    let (form, of) = result.split_once(" of ").map_or(("", result), |(form, of)| (form, of));
    match (form, of) {
        (_, "()") => String::new(),
        ("", of) => format!("`{of}`"),
        (form, of) => format!("{form} of `{of}`"),
    }
}

fn dropped(text: &str) -> String {
    match text.is_empty() || text.trim_start().starts_with("Cancel-safe") {
        true => "safe".to_owned(),
        false => sentence(text),
    }
}

/// Returns the text of a section, without its title.
fn section<'d>(docs: &'d str, title: &str) -> &'d str {
    let Some(begin) = docs.find(&format!("{title}\n")) else {
        return "";
    };
    &docs[begin + title.len() + 1..]
}

/// Returns the first sentence of a text, as a cell of a table without links.
fn sentence(text: &str) -> String {
    let lines = text.trim_start().lines().map(str::trim);
    let paragraph: Vec<&str> = lines
        .take_while(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let paragraph = without_links(&paragraph.join(" "));
    let end = paragraph.match_indices(". ").map(|(at, _)| at + 1);
    let end = end.chain([paragraph.len()]).min().unwrap_or_default();
    paragraph[..end].trim_end_matches([':', '.']).replace('|', "\\|")
}

/// Returns the text with that of each link in place of the link.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        let Some((shown, after)) = link.split_once(']') else {
            rest = link;
            break;
        };
        plain.push_str(shown);
        rest = match after.strip_prefix('(').and_then(|target| target.split_once(')')) {
            Some((_, after)) => after,
            None => after,
        };
    }
    plain + rest
}

/// Reads the calls of all types, in the order of the source files.
fn read() -> Result<Vec<Call>> {
    let files = tracked_files()?;
    let mut calls = Vec::new();
    for (_, in_crate, of_type) in TYPES {
        let folder = format!("crates/{in_crate}/src/");
        let sources = files
            .iter()
            .filter(|file| file.starts_with(&folder) && file.ends_with(".rs"));
        let mut items = Vec::new();
        for path in sources {
            let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
            items.extend(syn::parse_file(&text).with_context(|| format!("parsing {path}"))?.items);
        }
        let outputs = outputs(&items);
        let before = calls.len();
        for item in &items {
            for (signature, attributes) in methods(item, of_type) {
                calls.extend(call(of_type, signature, attributes, &outputs));
            }
        }
        if calls.len() == before {
            bail!("{of_type} of {folder} has no calls");
        }
    }
    Ok(calls)
}

/// Returns the public methods of a type, or of a trait.
fn methods<'i>(item: &'i Item, of_type: &str) -> Vec<(&'i Signature, &'i [Attribute])> {
    match item {
        Item::Impl(of) if of.trait_.is_none() && name_of(&of.self_ty) == of_type => {
            let functions = of.items.iter().filter_map(|item| match item {
                ImplItem::Fn(function) if matches!(function.vis, Visibility::Public(_)) => {
                    Some((&function.sig, &function.attrs[..]))
                }
                _ => None,
            });
            functions.collect()
        }
        Item::Trait(of) if of.ident == of_type => {
            let functions = of.items.iter().filter_map(|item| match item {
                TraitItem::Fn(function) => Some((&function.sig, &function.attrs[..])),
                _ => None,
            });
            functions.collect()
        }
        _ => Vec::new(),
    }
}

fn call(
    of_type: &'static str,
    signature: &Signature,
    attributes: &[Attribute],
    outputs: &BTreeMap<String, String>,
) -> Option<Call> {
    let docs = docs(attributes);
    let ReturnType::Type(_, returned) = &signature.output else {
        return None;
    };
    let action = name_of(returned);
    let is_call = docs.contains("# Cost") || outputs.contains_key(&action);
    if !is_call {
        return None;
    }
    let arguments = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(argument) => Some(tokens(&argument.pat)),
        FnArg::Receiver(_) => None,
    });
    let types = arguments_of(returned);
    let of = |index: usize| types.get(index).map(text_of).unwrap_or_default();
    let result = match action.as_str() {
        "Read" | "Write" | "ActionFuture" => of(0),
        "List" => format!("page of {}", of(0)),
        "Items" => "page of T".to_owned(),
        "Find" if !outputs.contains_key("Find") => format!("Vec<{}>", of(0)),
        "Verify" => "stream of Finding".to_owned(),
        name if name.starts_with("Repair") => "stream of Repaired".to_owned(),
        name => outputs.get(name).cloned().unwrap_or_default(),
    };
    Some(Call {
        of_type,
        name: signature.ident.to_string(),
        arguments: arguments.collect(),
        action,
        result,
        docs,
    })
}

fn docs(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(value) => match &value.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns what the actions of a crate return when they are awaited: `"append" => Appended` of its macros, and the `Output`s of
/// its futures.
fn outputs(items: &[Item]) -> BTreeMap<String, String> {
    items.iter().filter_map(output).collect()
}

fn output(item: &Item) -> Option<(String, String)> {
    match item {
        Item::Macro(of) => {
            let name = of.mac.path.segments.last()?.ident.to_string();
            let text = of.mac.tokens.to_string();
            let (_, of_operation) = text
                .rsplit_once("\" => ")
                .filter(|_| ["action", "migration"].contains(&name.as_str()))?;
            let (_, definition) = text.split_once("pub struct ")?;
            let name = definition.chars().take_while(|c| c.is_alphanumeric()).collect();
            let end = [" where ", ";"]
                .into_iter()
                .filter_map(|end| of_operation.find(end))
                .min();
            let output = &of_operation[..end.unwrap_or(of_operation.len())];
            Some((name, output.replace(' ', "")))
        }
        Item::Impl(of)
            if of
                .trait_
                .as_ref()
                .is_some_and(|(path, _)| path.segments.last().is_some_and(|last| last.ident == "IntoFuture")) =>
        {
            let output = of.items.iter().find_map(|item| match item {
                ImplItem::Type(output) if output.ident == "Output" => arguments_of(&output.ty).first().map(text_of),
                _ => None,
            });
            Some((name_of(&of.self_ty), output?))
        }
        _ => None,
    }
}

/// Returns the last name of a type, without its parameters.
fn name_of(of: &Type) -> String {
    match of {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .map(|last| last.ident.to_string())
            .unwrap_or_default(),
        _ => String::new(),
    }
}

/// Returns the types among the parameters of a type.
fn arguments_of(of: &Type) -> Vec<Type> {
    let Type::Path(path) = of else { return Vec::new() };
    let Some(last) = path.path.segments.last() else {
        return Vec::new();
    };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return Vec::new();
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(of) => Some(of.clone()),
        _ => None,
    });
    types.collect()
}

fn text_of(of: &Type) -> String {
    tokens(of).replace(' ', "")
}

fn tokens(of: &impl quote::ToTokens) -> String {
    of.to_token_stream().to_string()
}
