//! The indexes that a pattern needs.

use mongo_patterns_core::Repository;
use mongo_patterns_core::index::IndexPlan;
use serde_json::json;

use crate::args::{Create, Setup};
use crate::context::Context;
use crate::failure::{Exit, Outcome};
use crate::output::{Output, Summary, to_json};
use crate::{shard, shell};

/// Runs a command that sets up the collections of a pattern.
pub(crate) async fn set_up(context: &Context, repository: &dyn Repository, setup: &Setup) -> Outcome {
    match setup {
        Setup::Indexes(create) => run(context.output, repository, *create).await,
        Setup::Shard(options) => shard::run(context, repository, options).await,
    }
}

/// Prints each index and whether it exists, or creates those that are missing.
pub(crate) async fn run(output: Output, repository: &dyn Repository, options: Create) -> Outcome {
    if options.create {
        return create(output, repository, options.replace_settings).await;
    }
    let plans = repository.indexes();
    if plans.is_empty() {
        output.summary(
            &summary(repository, None).row("planned", 0).row("missing", 0),
            Exit::Success,
        )?;
    }
    let mut exit = Exit::Success;
    for plan in &plans {
        match show(output, repository, plan).await? {
            Exit::Success => {}
            findings => exit = findings,
        }
    }
    Ok(exit)
}

async fn show(output: Output, repository: &dyn Repository, plan: &IndexPlan) -> Outcome {
    let missing = plan.missing().await?;
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
    let summary = summary(repository, Some(plan))
        .row("planned", plan.indexes().len())
        .row("missing", missing.len());
    output.summary(&summary, exit)?;
    if !missing.is_empty() {
        output.text("create the missing indexes with `indexes --create`")?;
    }
    Ok(exit)
}

/// Creates the missing indexes, stores the settings in the catalog, and prints the names of the created indexes.
async fn create(output: Output, repository: &dyn Repository, replace_settings: bool) -> Outcome {
    let ensure = repository.ensure_indexes();
    let ensured = match replace_settings {
        true => ensure.replace_settings().await?,
        false => ensure.await?,
    };
    let mut summary = summary(repository, repository.indexes().first())
        .row("created", ensured.created.len())
        .row("present_before", ensured.existing.len());
    if !ensured.created.is_empty() {
        summary = summary.row("names", ensured.created.join(", "));
    }
    if !ensured.unused.is_empty() {
        summary = summary.row("unused", ensured.unused.join(", "));
    }
    output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}

fn summary(repository: &dyn Repository, plan: Option<&IndexPlan>) -> Summary {
    let namespace = match plan {
        Some(plan) => plan.namespace(),
        None => repository.namespaces()[0].clone(),
    };
    Summary::new(format!("{} indexes", repository.pattern()), namespace.to_string())
}
