//! Old documents in a second collection.

use std::time::{Duration, SystemTime};

use mongo_patterns_archive::Archive;
use mongo_patterns_core::migration::Migration;
use mongo_patterns_core::{Error, send};
use mongodb::Collection;
use mongodb::bson::{DateTime, Document};

use crate::args::{ArchivePace, ArchiveSettings, ArchiveVerb, Listing, OlderThan};
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::findings::Check;
use crate::migrate::{Migrate, Mode};
use crate::output::Summary;
use crate::{extended_json, indexes, shard};

type Documents = Archive<Document>;

pub(crate) async fn run(context: &Context, settings: &ArchiveSettings, verb: &ArchiveVerb) -> Outcome {
    let archive = archive(context, settings, verb).await?;
    match verb {
        ArchiveVerb::Status(_) => status(context, &archive).await,
        ArchiveVerb::Plan(_) => {
            let plan = Migrate::new(context, &archive, Mode::Plan, "documents");
            plan.execute(archive.run()).await
        }
        ArchiveVerb::Run {
            replace_archived, pace, ..
        } => {
            let run = match replace_archived {
                true => archive.run().replace_archived(),
                false => archive.run(),
            };
            moved(context, &archive, "run", run, pace).await
        }
        ArchiveVerb::Restore { filter, pace } => {
            let filter = filter_of("--where", filter)?;
            moved(context, &archive, "restore", archive.restore_many(filter), pace).await
        }
        ArchiveVerb::Delete { older_than, pace } => {
            let before = DateTime::from_system_time(SystemTime::now() - age(*older_than));
            moved(context, &archive, "delete", archive.delete_before(before), pace).await
        }
        ArchiveVerb::Verify => {
            let check = Check::new(context.output, &archive, "verify", "documents");
            let verify = |report| archive.verify().on_progress(report).stream();
            check.verify(Listing { all: true }, verify).await
        }
        ArchiveVerb::Indexes(create) => indexes::run(context.output, &archive, *create).await,
        ArchiveVerb::Shard(options) => shard::run(context, &archive, options).await,
    }
}

async fn archive(context: &Context, settings: &ArchiveSettings, verb: &ArchiveVerb) -> Result<Documents, Failure> {
    let name = settings.archive_db.as_deref().unwrap_or(context.database.name());
    let archived = context.database.client().database(name);
    let older_than = match verb {
        ArchiveVerb::Status(older_than) | ArchiveVerb::Plan(older_than) | ArchiveVerb::Run { older_than, .. } => {
            age(*older_than)
        }
        _ => Duration::ZERO, // not used
    };
    let current = context.database.collection::<Document>(&settings.collection);
    let mut builder = Documents::builder(current, archived.collection::<Document>(&settings.archive))
        .age_field(&settings.age)
        .older_than(older_than)
        .id_field(&settings.id);
    if let Some(field) = &settings.keep_newest_by {
        builder = builder.keep_newest_by(field);
    }
    for related in settings.related.chunks(3) {
        let [name, archive, field] = related else { continue };
        let current = context.database.collection::<Document>(name);
        builder = builder.related(current, archived.collection::<Document>(archive), field);
    }
    if let Some(keep) = &settings.keep {
        builder = builder.keep(filter_of("--keep", keep)?);
    }
    let archive = builder.build()?;
    context.must_exist(&settings.collection).await?;
    Ok(archive)
}

fn age(older_than: OlderThan) -> Duration {
    Duration::from_secs(u64::from(older_than.older_than) * 24 * 60 * 60)
}

/// Parses a filter. The error does not quote it.
fn filter_of(option: &str, text: &str) -> Result<Document, Failure> {
    extended_json::document(text).map_err(|problem| Failure::usage(format!("{option}: {problem}")))
}

async fn moved<'a>(
    context: &'a Context,
    archive: &'a Documents,
    verb: &'static str,
    mut migration: impl Migration<'a>,
    pace: &ArchivePace,
) -> Outcome {
    pace.pace.set(migration.options());
    let migrate = Migrate {
        verb,
        omits: &crate::migrate::COMMANDS, // of the first chunk
        ..Migrate::new(context, archive, pace.dry_run.mode(), "documents")
    };
    migrate.execute(migration).await
}

async fn status(context: &Context, archive: &Documents) -> Outcome {
    let due = archive.due().await?;
    let count = async |collection: Collection<Document>| {
        let count = send::estimated_count(&collection.clone_with_type()).await;
        count.map_err(Error::from)
    };
    let oldest = due.oldest.map(|time| time.try_to_rfc3339_string().unwrap_or_default());
    let summary = Summary::of(archive, "status")
        .row("documents", count(archive.collection()).await?)
        .row("archived", count(archive.archived_collection()).await?)
        .row("due", due.documents)
        .row("oldest_due", oldest);
    context.output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}
