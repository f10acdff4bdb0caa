//! The commands of the history pattern.

mod analyze;
mod check;
mod read;

use mongo_patterns_history::HistoryRepository;
use mongo_patterns_history::action::MigrateExisting;
use mongodb::bson::Document;

use crate::args::{History, HistoryMigration, HistoryVerb};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Summary;
use crate::profile::overlay;
use crate::progress::Progress;
use crate::settings::{HistorySettings, check_different, check_fields, need};
use crate::{Context, catalog, indexes, plan, shard};

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
        HistoryVerb::Plan(options) => {
            let planned = work.migration(options).plan().await?;
            plan::print(output, &context.database, &planned)
        }
        HistoryVerb::Migrate { options, dry_run } if dry_run.dry_run => work.dry_run(options).await,
        HistoryVerb::Migrate { options, .. } => work.migrate(options).await,
        HistoryVerb::Verify => work.verify().await,
        HistoryVerb::Repair(options) => work.repair(*options).await,
        HistoryVerb::Shard(options) => {
            let of = ("history shard", work.namespace());
            let ensure = work.documents.ensure_sharded();
            shard::run(context, of, ensure, &work.documents.shard_keys(), options).await
        }
        HistoryVerb::Indexes(create) if create.create => {
            let ensured = indexes::create(work.documents.ensure_indexes(), *create).await?;
            indexes::created(output, "history indexes", work.namespace(), &ensured)
        }
        HistoryVerb::Indexes(_) => work.indexes().await,
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

    fn namespace(&self) -> String {
        self.documents.collection().namespace().to_string()
    }

    async fn indexes(&self) -> Outcome {
        let [current, revisions] = self.documents.indexes();
        let (output, name) = (self.context.output, "history indexes");
        let of_current = indexes::show(output, name, &current, self.documents.collection()).await?;
        let of_revisions = indexes::show(output, name, &revisions, self.documents.revisions_collection()).await?;
        Ok(match of_current {
            Exit::Success => of_revisions,
            findings => findings,
        })
    }

    fn migration(&self, options: &HistoryMigration) -> MigrateExisting<'_> {
        let migration = self.documents.migrate_existing();
        match &options.embedded_versions {
            Some(field) => migration.embedded_versions(field),
            None => migration,
        }
    }

    async fn dry_run(&self, options: &HistoryMigration) -> Outcome {
        let planned = self.migration(options).plan().await?;
        let writes = planned.iter().filter(|planned| planned.writes);
        let summary = Summary::new("history migrate --dry-run", self.namespace())
            .row("commands", planned.len())
            .row("commands_that_write", writes.count());
        self.context.output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    async fn migrate(&self, options: &HistoryMigration) -> Outcome {
        let output = self.context.output;
        let progress = Progress::new(output, "migrate", "documents", None);
        progress.show("the server checks all documents, then migrates them");
        let migrated = self.migration(options).await;
        progress.end();
        let migrated = migrated?;
        let summary = Summary::new("history migrate", self.namespace())
            .row("numbered", migrated.numbered)
            .row("duplicates_removed", migrated.removed_duplicates)
            .row("indexes_created", migrated.created_indexes.len());
        output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
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
