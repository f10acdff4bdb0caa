//! The indexes that a pattern needs.

use mongo_patterns_core::index::{EnsureIndexes, EnsuredIndexes, IndexPlan};
use mongodb::Collection;
use serde_json::json;

use crate::args::Create;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, Summary, to_json};
use crate::shell;

/// Prints each index, and whether it exists.
pub(crate) async fn show<T: Send + Sync>(
    output: Output,
    command: &'static str,
    plan: &IndexPlan,
    collection: &Collection<T>,
) -> Outcome {
    let missing = plan.missing(collection).await?;
    for index in plan.indexes() {
        let is_missing = missing.contains(index);
        let state = if is_missing { "missing" } else { "present" };
        let command = plan.create_command(std::slice::from_ref(index)).into();
        output.text(&format!("// {state}\ndb.runCommand({})", shell::pretty(&command)))?;
        output.object(&json!({
            "type": "index",
            "name": index.name,
            "keys": to_json(&index.keys.clone().into()),
            "unique": index.unique,
            "partial_filter": index.partial_filter.clone().map(|filter| to_json(&filter.into())),
            "present": !is_missing,
        }))?;
    }
    let exit = Exit::of_findings(missing.len() as u64);
    let summary = Summary::new(command, collection.namespace().to_string())
        .row("planned", plan.indexes().len())
        .row("missing", missing.len());
    output.summary(&summary, exit)?;
    if !missing.is_empty() {
        output.text("create the missing indexes with `indexes --create`")?;
    }
    Ok(exit)
}

/// Creates the missing indexes, and stores the settings in the catalog.
pub(crate) async fn create(ensure: EnsureIndexes<'_>, create: Create) -> Result<EnsuredIndexes, Failure> {
    let ensure = match create.replace_settings {
        true => ensure.replace_settings(),
        false => ensure,
    };
    Ok(ensure.await?)
}

/// Prints the names of the created indexes.
pub(crate) fn created(output: Output, command: &'static str, namespace: String, ensured: &EnsuredIndexes) -> Outcome {
    let mut summary = Summary::new(command, namespace).row("created", ensured.created.len());
    summary = summary.row("present_before", ensured.existing.len());
    if !ensured.created.is_empty() {
        summary = summary.row("names", ensured.created.join(", "));
    }
    output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}
