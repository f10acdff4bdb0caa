//! Prints the findings of `verify`.

use std::io;

use futures::{Stream, TryStreamExt};
use mongo_patterns_core::{Error, Repository};
use mongodb::bson::Bson;
use serde_json::Value;

use crate::failure::{Exit, Outcome};
use crate::output::{Output, Summary, printable, to_json};
use crate::progress::SharedProgress;
use crate::shard;

/// Checks the shard keys, and prints all findings.
pub(crate) async fn verify<T>(
    output: Output,
    repository: &dyn Repository,
    progress: &SharedProgress,
    mut findings: impl Stream<Item = Result<T, Error>> + Unpin,
    print: impl Fn(&T) -> io::Result<()>,
) -> Outcome {
    let mut found = shard::verify(output, repository).await?;
    while let Some(finding) = findings.try_next().await? {
        found += 1;
        progress.suspend(|| print(&finding))?;
    }
    progress.end();
    let exit = Exit::of_findings(found);
    let summary = Summary::of(repository, "verify").row("findings", found);
    output.summary(&summary, exit)?;
    Ok(exit)
}

/// The number of documents that a text names. JSON has all.
const NAMED: usize = 10;

/// Returns the `_id`s of the documents of a finding as text, and as a field for `--json`.
pub(crate) fn documents(ids: &[Bson]) -> (String, (&'static str, Value)) {
    let named = ids.iter().take(NAMED).map(|id| printable(&id.to_string()));
    let mut named = named.collect::<Vec<_>>().join(", ");
    if ids.len() > NAMED {
        named.push_str(", ..");
    }
    let all = ids.iter().map(to_json).collect();
    (named, ("document_ids", Value::Array(all)))
}
