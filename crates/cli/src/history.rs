//! The commands of the history pattern.

mod analyze;
mod prune;
mod read;

use mongo_patterns_core::migration::Migration;
use mongo_patterns_history::HistoryRepository;
use mongodb::bson::Document;

use crate::args::{DryRun, History, HistoryMigration, HistoryVerb, Listing};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::findings::{Check, unnamed};
use crate::migrate::{Migrate, Mode};
use crate::settings::{HistorySettings, check_different, check_fields, need, with_given};
use crate::{catalog, indexes};

const PATTERN: &str = "history";

type Documents = HistoryRepository<Document>;

pub(crate) async fn run(context: &Context, pattern: &History) -> Outcome {
    let settings = catalog::settings(context, &pattern.settings).await?;
    check(&settings)?;
    check_collections(context, &settings, &pattern.verb).await?;
    let work = Work {
        context,
        documents: repository(context, &settings)?,
    };
    match &pattern.verb {
        HistoryVerb::Analyze => work.analyze(&settings).await,
        HistoryVerb::Plan(options) => work.migrate(options, Mode::Plan).await,
        HistoryVerb::Migrate { options, dry_run } => work.migrate(options, dry_run.mode()).await,
        HistoryVerb::Verify(listing) => work.verify(*listing).await,
        HistoryVerb::Repair(options) => work.repair(*options).await,
        HistoryVerb::Prune(options) => work.prune(options, &settings).await,
        HistoryVerb::Setup(setup) => indexes::set_up(context, &work.documents, setup).await,
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
    fn check(&self, verb: &'static str) -> Check<'_> {
        Check::new(self.context, &self.documents, verb, "documents")
    }

    async fn verify(&self, listing: Listing) -> Outcome {
        let verify = |report| self.documents.verify().on_progress(report).stream();
        self.check("verify").verify(listing, verify).await
    }

    async fn repair(&self, options: DryRun) -> Outcome {
        let repair = |report| {
            let repair = self.documents.repair().on_progress(report);
            if options.dry_run { repair.dry_run() } else { repair }.stream()
        };
        self.check("repair").repair(options, repair, unnamed).await
    }

    async fn migrate(&self, options: &HistoryMigration, mode: Mode) -> Outcome {
        let migration = self.documents.migrate_existing();
        let mut migration = match &options.embedded_versions {
            Some(field) => migration.embedded_versions(field),
            None => migration,
        };
        options.pace.set(migration.options());
        let migrate = Migrate::new(self.context, &self.documents, mode, "documents");
        migrate.execute(migration).await
    }
}

/// Checks that the collections that the command reads exist, before the settings that they may need.
async fn check_collections(context: &Context, settings: &HistorySettings, verb: &HistoryVerb) -> Result<(), Failure> {
    let revisions = match verb {
        HistoryVerb::Setup(_) => return Ok(()),
        HistoryVerb::Plan(_) | HistoryVerb::Migrate { .. } => None,
        _ => Some(&settings.revisions_collection),
    };
    context
        .must_have([&settings.collection].into_iter().chain(revisions))
        .await
}

/// Returns the field of a revision with the id of its document.
fn id_of_revision(settings: &HistorySettings) -> Result<&str, Failure> {
    Ok(match need(settings.id.as_ref(), PATTERN, "id")? {
        "_id" => settings.document_id.as_deref().unwrap_or("documentId"),
        id => id,
    })
}

fn check(settings: &HistorySettings) -> Result<(), Failure> {
    let fields = [
        ("--id", &settings.id),
        ("--document-id", &settings.document_id),
        ("--revision", &settings.revision),
        ("--time", &settings.time),
        ("--deleted", &settings.deleted),
    ];
    check_fields(fields)?;
    check_fields([("--change-fields", settings.change_fields.iter().flatten())])?;
    let collections = [&settings.collection, &settings.revisions_collection];
    check_different(["--collection", "--revisions-collection"], collections)
}

fn repository(context: &Context, settings: &HistorySettings) -> Result<Documents, Failure> {
    let database = &context.database;
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let revisions = need(settings.revisions_collection.as_ref(), PATTERN, "revisions_collection")?;
    let current = database.collection::<Document>(collection);
    let id = need(settings.id.as_ref(), PATTERN, "id")?;
    let builder = HistoryRepository::builder(current, database.collection::<Document>(revisions)).id_field(id);
    let builder = with_given!(
        builder,
        &settings.document_id => document_id_field,
        &settings.revision => revision_field,
        &settings.time => time_field,
        &settings.deleted => deleted_field,
        settings.change_fields.clone() => change_fields,
    );
    Ok(builder.build()?)
}
