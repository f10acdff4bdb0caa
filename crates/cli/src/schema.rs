//! Documents of several versions.

use mongo_patterns_core::ErrorKind;
use mongo_patterns_core::migration::{MigrateOptions, Migration};
use mongo_patterns_schema::SchemaRepository;
use mongodb::bson::{Bson, Document};
use serde_json::json;

use crate::args::{Listing, SchemaVerb, Versioned};
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::findings::Check;
use crate::migrate::{Migrate, Mode};
use crate::output::{Record, Summary};
use crate::{catalog, extended_json, indexes};

type Documents = SchemaRepository<Document>;

pub(crate) async fn run(context: &Context, verb: &SchemaVerb) -> Outcome {
    let migrate = async |versioned: &Versioned, options: MigrateOptions, mode| {
        let documents = repository(context, versioned).await?;
        let mut migration = documents.migrate();
        *migration.options() = options;
        Migrate::new(context, &documents, mode, "documents")
            .execute(migration)
            .await
    };
    match verb {
        SchemaVerb::Versions(versioned) => versions(context, versioned).await,
        SchemaVerb::Plan(versioned) => migrate(versioned, MigrateOptions::default(), Mode::Plan).await,
        SchemaVerb::Migrate {
            versioned,
            pace,
            dry_run,
        } => {
            let mut options = MigrateOptions::default();
            pace.set(&mut options);
            migrate(versioned, options, dry_run.mode()).await
        }
        SchemaVerb::Verify(versioned) => {
            let documents = repository(context, versioned).await?;
            let check = Check::new(context.output, &documents, "verify", "documents");
            let verify = |report| documents.verify().on_progress(report).stream();
            check.verify(Listing { all: true }, verify).await
        }
        SchemaVerb::Indexes { versioned, create } => {
            let documents = repository(context, versioned).await?;
            indexes::run(context.output, &documents, *create).await
        }
    }
}

/// Returns the repository with the steps.
async fn repository(context: &Context, versioned: &Versioned) -> Result<Documents, Failure> {
    let settings = catalog::settings(context, &versioned.settings).await?;
    context.must_have([&settings.collection]).await?;
    let Some(collection) = &settings.collection else {
        return Err(Failure::missing(
            "the collection is missing: pass its name after the command, or set `collection` in a table [[schema]] of the profile",
        ));
    };
    let Versioned { from, step, .. } = versioned;
    let mut builder = Documents::builder(context.database.collection::<Document>(collection));
    if let Some(field) = &settings.version_field {
        builder = builder.version_field(field);
    }
    if step.is_empty() {
        builder = builder.newest(*from);
    }
    for (version, step) in (*from..).zip(step) {
        builder = builder.pipeline_step(version, stages(step)?);
    }
    Ok(builder.build()?)
}

/// Parses a step. The error does not quote it.
fn stages(text: &str) -> Result<Vec<Document>, Failure> {
    let no_stages = || {
        Failure::usage("--step: it is not an array of stages, such as [{\"$set\": {\"name\": \"$title\"}}]".to_owned())
    };
    let stages = extended_json::value(text).map_err(|problem| Failure::usage(format!("--step: {problem}")))?;
    let Bson::Array(stages) = stages else {
        return Err(no_stages());
    };
    let stages = stages.into_iter().map(|stage| match stage {
        Bson::Document(stage) => Ok(stage),
        _ => Err(no_stages()),
    });
    stages.collect()
}

async fn versions(context: &Context, versioned: &Versioned) -> Outcome {
    let repository = repository(context, versioned).await?;
    let stored = repository.collection();
    let collection = stored.name();
    let counts = repository.versions().await.map_err(|error| match error.kind() {
        ErrorKind::IndexMissing => Failure::usage(format!(
            "{collection} has no schema versions, or not this version field: a repository or `schema indexes --create` creates the index that counts them"
        )),
        _ => error.into(),
    })?;
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
