//! Documents of several versions, and the migrations that a service runs at its start.

use mongo_patterns_core::catalog::COLLECTION;
use mongo_patterns_schema::{Migrations, SchemaRepository};
use mongodb::bson::{DateTime, Document};
use serde_json::json;

use crate::Context;
use crate::args::SchemaVerb;
use crate::failure::{Exit, Outcome};
use crate::output::{Record, Summary, printable};

pub(crate) async fn run(context: &Context, verb: &SchemaVerb) -> Outcome {
    match verb {
        SchemaVerb::Status { list } => status(context, list).await,
        SchemaVerb::Versions {
            collection,
            version_field,
        } => versions(context, collection, version_field).await,
    }
}

async fn status(context: &Context, list: &str) -> Outcome {
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

async fn versions(context: &Context, collection: &str, version_field: &str) -> Outcome {
    let stored = context.database.collection::<Document>(collection);
    let repository = SchemaRepository::<Document>::builder(stored)
        .version_field(version_field)
        .build()?;
    let counts = repository.versions().await?;
    for count in &counts {
        let version = match count.version {
            Some(version) => format!("version {version}"),
            None => "no version".to_owned(),
        };
        context.output.record(Record {
            kind: "version",
            collection,
            id: None,
            text: format!("{version}: {} documents", count.documents),
            fields: json!(count),
        })?;
    }
    let documents: u64 = counts.iter().map(|count| count.documents).sum();
    let summary = Summary::new("schema versions", collection).row("documents", documents);
    context.output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}
