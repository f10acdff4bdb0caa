//! The oldest Rust that the published crates support.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{cargo, output, run, rustup_cargo};

/// Checks the workspace with the oldest Rust.
pub(crate) fn check_with_oldest() -> Result<()> {
    let metadata = metadata()?;
    let toolchain = format!("+{}", oldest(&metadata)?);
    // A folder of its own: otherwise each change of the toolchain would compile everything again.
    run(rustup_cargo([&toolchain, "check", "--workspace", "--locked"]).args(["--target-dir", "target/msrv"]))
}

/// Checks that no dependency of a published crate declares a newer Rust than ours. Needs no other toolchain.
pub(crate) fn check_dependencies() -> Result<()> {
    let metadata = metadata()?;
    let oldest = oldest(&metadata)?;
    let packages = of_array(&metadata["packages"])?;
    let by_id: BTreeMap<&str, &Value> = packages.iter().map(|package| (id(package), package)).collect();
    let nodes = of_array(&metadata["resolve"]["nodes"])?;
    let nodes: BTreeMap<&str, &Value> = nodes.iter().map(|node| (id(node), node)).collect();
    let members = of_array(&metadata["workspace_members"])?
        .iter()
        .filter_map(Value::as_str);
    // `publish = false` is an empty list of registries.
    let is_published = |member: &&str| by_id[member]["publish"].is_null();
    let mut pending: Vec<&str> = members.filter(is_published).collect();
    if pending.is_empty() {
        bail!("no crate of the workspace is published");
    }
    let (mut seen, mut newer) = (BTreeSet::new(), Vec::new());
    while let Some(next) = pending.pop() {
        if !seen.insert(next) {
            continue;
        }
        let package = by_id.get(next).context("a package without metadata")?;
        if let Some(declared) = package["rust_version"].as_str()
            && version(declared)? > version(&oldest)?
        {
            newer.push(format!("{} {} needs {declared}", package["name"], package["version"]));
        }
        for dependency in of_array(&nodes[next]["deps"])? {
            let kinds = of_array(&dependency["dep_kinds"])?;
            if kinds.iter().any(|kind| kind["kind"] != "dev") {
                pending.extend(dependency["pkg"].as_str());
            }
        }
    }
    if !newer.is_empty() {
        bail!("the crates promise Rust {oldest}, and {}", newer.join(", "));
    }
    println!("{} packages declare Rust {oldest} or older", seen.len());
    Ok(())
}

fn metadata() -> Result<Value> {
    let text = output(&mut cargo([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--all-features",
    ]))?;
    serde_json::from_str(&text).context("reading the output of `cargo metadata`")
}

/// The `rust-version` of the facade.
fn oldest(metadata: &Value) -> Result<String> {
    let packages = of_array(&metadata["packages"])?;
    let facade = packages.iter().find(|package| package["name"] == "mongo-patterns");
    let oldest = facade.and_then(|facade| facade["rust_version"].as_str());
    Ok(oldest
        .context("the crate mongo-patterns declares no rust-version")?
        .to_owned())
}

pub(crate) fn of_array(value: &Value) -> Result<&Vec<Value>> {
    value
        .as_array()
        .context("`cargo metadata` has another form than expected")
}

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap_or_default()
}

fn version(text: &str) -> Result<Vec<u32>> {
    let mut numbers = text.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    numbers.resize(3, 0);
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(version("1.9").unwrap() < version("1.88").unwrap());
        assert!(version("1.88.1").unwrap() > version("1.88").unwrap());
        assert_eq!(version("1.88").unwrap(), version("1.88.0").unwrap());
    }
}
