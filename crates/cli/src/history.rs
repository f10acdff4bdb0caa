//! The commands of the history pattern.

mod analyze;
mod read;

use mongo_patterns_history::HistoryRepository;
use mongodb::bson::Document;

use crate::args::{DryRun, History, HistoryMigration, HistoryVerb};
use crate::failure::{Failure, Outcome};
use crate::findings::Check;
use crate::migrate::{Migrate, Mode};
use crate::profile::overlay;
use crate::settings::{HistorySettings, check_different, check_fields, need};
use crate::{Context, catalog, indexes, shard};

const PATTERN: &str = "history";

type Documents = HistoryRepository<Document>;

pub(crate) async fn run(context: &Context, pattern: &History) -> Outcome {
    let settings = overlay(context.profile.history.as_ref(), &pattern.settings)?;
    let settings = catalog::complete(context, settings).await?;
    let work = Work {
        context,
        documents: repository(context, &settings)?,
    };
    work.check_collections(&pattern.verb).await?;
    let output = context.output;
    match &pattern.verb {
        HistoryVerb::Analyze => work.analyze(&settings).await,
        HistoryVerb::Plan(options) => work.migrate(options, Mode::Plan).await,
        HistoryVerb::Migrate { options, dry_run } => work.migrate(options, dry_run.mode()).await,
        HistoryVerb::Verify => work.verify().await,
        HistoryVerb::Repair(options) => work.repair(*options).await,
        HistoryVerb::Shard(options) => shard::run(context, &work.documents, options).await,
        HistoryVerb::Indexes(create) => indexes::run(output, &work.documents, *create).await,
        HistoryVerb::Log(options) => work.log(options).await,
        HistoryVerb::Show(options) => work.show(options).await,
        HistoryVerb::Diff { document, from, to } => work.diff(document, *from, *to).await,
    }
}

/// The history commands.
struct Work<'a> {
    context: &'a Context,
    documents: Documents,
}

impl Work<'_> {
    /// Checks that the collections that the command reads exist.
    async fn check_collections(&self, verb: &HistoryVerb) -> Result<(), Failure> {
        if matches!(verb, HistoryVerb::Indexes(_) | HistoryVerb::Shard(_)) {
            return Ok(());
        }
        self.context.must_exist(self.documents.collection().name()).await?;
        if matches!(verb, HistoryVerb::Plan(_) | HistoryVerb::Migrate { .. }) {
            return Ok(());
        }
        self.context
            .must_exist(self.documents.revisions_collection().name())
            .await
    }

    fn check(&self, verb: &'static str) -> Check<'_> {
        Check::new(self.context.output, &self.documents, verb, "documents")
    }

    async fn verify(&self) -> Outcome {
        let check = self.check("verify");
        let verify = self.documents.verify().on_progress(check.progress.callback());
        check.verify(verify.stream()).await
    }

    async fn repair(&self, options: DryRun) -> Outcome {
        let check = self.check("repair");
        let mut repair = self.documents.repair().on_progress(check.progress.callback());
        if options.dry_run {
            repair = repair.dry_run();
        }
        check.repair(options.dry_run, repair.stream()).await
    }

    async fn migrate(&self, options: &HistoryMigration, mode: Mode) -> Outcome {
        let migration = self.documents.migrate_existing();
        let migration = match &options.embedded_versions {
            Some(field) => migration.embedded_versions(field),
            None => migration,
        };
        let migrate = Migrate::new(self.context, &self.documents, mode, "documents");
        migrate.execute(migration).await
    }
}

fn repository(context: &Context, settings: &HistorySettings) -> Result<Documents, Failure> {
    let fields = [
        ("--id", &settings.id),
        ("--revision", &settings.revision),
        ("--time", &settings.time),
        ("--deleted", &settings.deleted),
    ];
    check_fields(
        fields
            .into_iter()
            .filter_map(|(option, name)| Some((option, name.as_ref()?))),
    )?;
    check_fields(
        settings
            .change_fields
            .iter()
            .flatten()
            .map(|name| ("--change-fields", name)),
    )?;
    let database = &context.database;
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let revisions = need(settings.revisions_collection.as_ref(), PATTERN, "revisions_collection")?;
    check_different(["--collection", "--revisions-collection"], [collection, revisions])?;
    let current = database.collection::<Document>(collection);
    let mut builder = HistoryRepository::builder(current, database.collection::<Document>(revisions)).id_field(need(
        settings.id.as_ref(),
        PATTERN,
        "id",
    )?);
    if let Some(field) = &settings.revision {
        builder = builder.revision_field(field);
    }
    if let Some(field) = &settings.time {
        builder = builder.time_field(field);
    }
    if let Some(field) = &settings.deleted {
        builder = builder.deleted_field(field);
    }
    if let Some(fields) = &settings.change_fields {
        builder = builder.change_fields(fields.iter().cloned());
    }
    Ok(builder.build()?)
}
