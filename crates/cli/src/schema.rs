//! Documents of several versions.

use std::time::Duration;

use mongo_patterns_core::catalog::COLLECTION;
use mongo_patterns_core::migration::{MigrateOptions, Migration};
use mongo_patterns_schema::{Migrations, SchemaRepository};
use mongodb::bson::{Bson, Document, doc};

use crate::args::{Listing, SchemaVerb, Step, Versioned};
use crate::confirm::{Confirmation, confirmed};
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::findings::Check;
use crate::migrate::{Migrate, Mode};
use crate::output::{Summary, printable};
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
        SchemaVerb::Mark(step) => change(context, step, true).await,
        SchemaVerb::Unmark(step) => change(context, step, false).await,
        SchemaVerb::ReleaseLease { list, confirmation } => release_lease(context, list, *confirmation).await,
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
            let check = Check::new(context, &documents, "verify", "documents");
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

/// Records that a step is applied, or removes it from the record.
async fn change(context: &Context, step: &Step, is_applied: bool) -> Outcome {
    let Step {
        name,
        list,
        confirmation,
    } = step;
    let consequence = match is_applied {
        true => "no instance runs this step any more",
        false => "the next instance runs this step again",
    };
    let (database, id) = (&context.database, doc! { "kind": "steps", "name": list });
    let lists = database.collection::<Document>(COLLECTION);
    let known = lists
        .find_one(doc! { "_id": id })
        .await
        .map_err(Failure::on(lists.namespace()))?;
    if known.is_none() {
        return Err(Failure::usage(format!(
            "the catalog of {} has no list of steps `{}`, nothing was changed: check --db and --list; the first start of a service with the list creates it",
            database.name(),
            printable(list)
        )));
    }
    confirmed(context.output, *confirmation, consequence).await?;
    // An instance that is gone would be waited for.
    let migrations = Migrations::new(&context.database).list(list).max_wait(Duration::ZERO);
    let by = operator(context).await?;
    let (verb, changed) = match is_applied {
        true => ("schema mark", migrations.mark(name, by).await?),
        false => ("schema unmark", migrations.unmark(name, by).await?),
    };
    let summary = Summary::new(verb, context.database.name()).row("changed", changed);
    context.output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}

async fn release_lease(context: &Context, list: &str, confirmation: Confirmation) -> Outcome {
    let consequence =
        "an instance that still runs a step loses its lease, and the next one can run the same step beside it";
    confirmed(context.output, confirmation, consequence).await?;
    let migrations = Migrations::new(&context.database).list(list);
    let released = migrations.release_lease(operator(context).await?).await?;
    let summary = Summary::new("schema release-lease", context.database.name()).row("released", released);
    context.output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}

/// Returns who runs the command, and the host: the name of the shell, the user of the connection, or that of the process.
async fn operator(context: &Context) -> Result<String, Failure> {
    let printed = |program: &str| {
        let output = std::process::Command::new(program).output().ok()?;
        let output = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        Some(output).filter(|output| !output.is_empty())
    };
    let status = context.database.run_command(doc! { "connectionStatus": 1 }).await;
    let status = status.map_err(Failure::on("`connectionStatus`"))?;
    let users = status
        .get_document("authInfo")
        .and_then(|info| info.get_array("authenticatedUsers"));
    let connected = || Some(users.ok()?.first()?.as_document()?.get_str("user").ok()?.to_owned());
    let named = ["USER", "LOGNAME", "USERNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok());
    let user = named.or_else(connected).or_else(|| printed("whoami"));
    let [user, host] = [user, printed("hostname")].map(|name| name.unwrap_or_else(|| "?".to_owned()));
    Ok(format!("{user}@{host}"))
}
