//! The migrations that a service runs at its start.

use mongo_patterns_core::catalog::COLLECTION;
use mongo_patterns_schema::Migrations;
use mongodb::bson::DateTime;
use serde_json::json;

use crate::Context;
use crate::args::SchemaVerb;
use crate::failure::{Exit, Outcome};
use crate::output::{Record, Summary, printable};

pub(crate) async fn run(context: &Context, verb: &SchemaVerb) -> Outcome {
    let SchemaVerb::Status { list } = verb;
    let status = Migrations::new(&context.database).list(list).status().await?;
    let time = |time: &DateTime| time.try_to_rfc3339_string().unwrap_or_default();
    for step in &status.applied {
        let applied = time(&step.applied);
        context.output.record(Record {
            kind: "step",
            collection: COLLECTION,
            id: None,
            text: format!("{}: applied at {applied}", printable(&step.name)),
            fields: json!({ "name": step.name, "applied": applied }),
        })?;
    }
    let running = status.running_since.as_ref().map(time);
    let summary = Summary::new("schema status", context.database.name())
        .row("applied", status.applied.len())
        .row("running_since", running);
    context.output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}
