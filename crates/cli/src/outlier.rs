//! The commands of the outlier pattern.

use futures::TryStreamExt;
use mongo_patterns_core::Repository;
use mongo_patterns_outlier::OutlierRepository;
use mongodb::bson::{Bson, Document};

use crate::analyze::{self, Fields, Source};
use crate::args::{DryRun, Outlier, OutlierLimits, OutlierVerb};
use crate::failure::{Exit, Failure, Outcome};
use crate::findings::Check;
use crate::output::{Output, Summary};
use crate::profile::overlay;
use crate::progress::SharedProgress;
use crate::settings::{OutlierSettings, check_different, check_fields, need};
use crate::{Context, catalog, indexes, plan, shard};

const PATTERN: &str = "outlier";

type Lists = OutlierRepository<Document, Bson>;

pub(crate) async fn run(context: &Context, pattern: &Outlier) -> Outcome {
    let settings = overlay(context.profile.outlier.as_ref(), &pattern.settings)?;
    let settings = catalog::complete(context, settings).await?;
    let lists = repository(context, &settings)?;
    let output = context.output;
    if !matches!(pattern.verb, OutlierVerb::Indexes(_) | OutlierVerb::Shard(_)) {
        context.must_exist(lists.collection().name()).await?;
    }
    match &pattern.verb {
        OutlierVerb::Analyze(sample) => {
            let mut fields = Fields::of(need(settings.array.as_ref(), PATTERN, "array")?);
            fields.flag = settings.flag.as_deref().unwrap_or(fields.flag);
            fields.parent = settings.parent.as_deref().unwrap_or(fields.parent);
            fields.extras = settings.extras.clone().unwrap_or(fields.extras);
            let source = Source::Lists {
                collection: lists.collection().name(),
                overflow: lists.extras_collection().name(),
                fields,
                threshold: settings.threshold,
            };
            analyze::run(context, PATTERN, &source, *sample, None).await
        }
        OutlierVerb::Plan => print_plan(context, &lists).await,
        OutlierVerb::Migrate { options, limits } => migrate(context, &lists, *options, limits).await,
        OutlierVerb::Verify => verify(output, &lists).await,
        OutlierVerb::Repair {
            options,
            delete_orphans,
        } => repair(output, &lists, *options, *delete_orphans).await,
        OutlierVerb::Shard(options) => shard::run(context, &lists, options).await,
        OutlierVerb::Indexes(create) => indexes::run(output, &lists, *create).await,
    }
}

fn repository(context: &Context, settings: &OutlierSettings) -> Result<Lists, Failure> {
    let fields = [
        ("--array", &settings.array),
        ("--parent", &settings.parent),
        ("--flag", &settings.flag),
        ("--extras", &settings.extras),
        ("--seq", &settings.seq),
        ("--count", &settings.count),
    ];
    check_fields(
        fields
            .into_iter()
            .filter_map(|(option, name)| Some((option, name.as_ref()?))),
    )?;
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let extras = settings
        .extras_collection
        .clone()
        .unwrap_or_else(|| format!("{collection}_extras"));
    check_different(["--collection", "--extras-collection"], [collection, &extras])?;
    let main = context.database.collection::<Document>(collection);
    let mut builder = OutlierRepository::builder(main, context.database.collection::<Document>(&extras))
        .array_field(need(settings.array.as_ref(), PATTERN, "array")?)
        .parent_field(settings.parent.as_deref().unwrap_or("parent_id"))
        .threshold(settings.threshold.unwrap_or(50))
        .max_extras_elements(settings.cap.unwrap_or(500));
    if let Some(field) = &settings.flag {
        builder = builder.flag_field(field);
    }
    if let Some(field) = &settings.extras {
        builder = builder.extras_field(field);
    }
    if let Some(field) = &settings.seq {
        builder = builder.seq_field(field);
    }
    if let Some(field) = &settings.count {
        builder = builder.count_field(field);
    }
    if settings.unique == Some(true) {
        builder = builder.unique_elements();
    }
    Ok(builder.build()?)
}

/// Prints one document at a time, so that only one is in memory.
async fn print_plan(context: &Context, lists: &Lists) -> Outcome {
    let output = context.output;
    plan::print_database(output, &context.database)?;
    let mut commands = lists.migrate_existing().plan();
    while let Some(planned) = commands.try_next().await? {
        plan::print_one(output, &planned)?;
    }
    for planned in lists.ensure_indexes().plan_after_migration().await? {
        plan::print_one(output, &planned)?;
    }
    Ok(Exit::Success)
}

async fn migrate(context: &Context, lists: &Lists, options: DryRun, limits: &OutlierLimits) -> Outcome {
    let output = context.output;
    let dry_run = options.dry_run;
    let progress = SharedProgress::new(output, "migrate", "long lists", None);
    progress.show("the server finds long lists, and groups the overflow documents");
    let mut migration = lists.migrate_existing().on_progress(progress.callback());
    if dry_run {
        migration = migration.dry_run();
    }
    if let Some(rate) = limits.rate {
        migration = migration.rate(rate);
    }
    if let Some(filter) = limits.selection.filter()? {
        migration = migration.filter(filter);
    }
    if let Some(list) = limits.selection.skipped(context) {
        migration = migration.skip_invalid(&list);
    }
    let migrated = migration.await?;
    progress.end();
    let command = if dry_run { "migrate --dry-run" } else { "migrate" };
    let mut summary = Summary::of(lists, command)
        .row("documents", migrated.documents)
        .row("overflow_documents_written", migrated.overflow_documents);
    summary = limits.selection.rows(summary, migrated.skipped.by_reason());
    if !dry_run {
        let ensured = lists.ensure_indexes().await?;
        summary = summary.row("indexes_created", ensured.created.len());
    }
    output.summary(&summary, Exit::Success)?;
    Ok(Exit::Success)
}

fn check<'a>(output: Output, lists: &'a Lists, verb: &'static str) -> Check<'a> {
    let check = Check::new(output, lists, verb, "long lists");
    check
        .progress
        .show("the server finds long lists, and groups the overflow documents");
    check
}

async fn verify(output: Output, lists: &Lists) -> Outcome {
    let check = check(output, lists, "verify");
    let verify = lists.verify().on_progress(check.progress.callback());
    check.verify(verify.stream()).await
}

async fn repair(output: Output, lists: &Lists, options: DryRun, delete_orphans: bool) -> Outcome {
    let check = check(output, lists, "repair");
    let mut repair = lists.repair().on_progress(check.progress.callback());
    if options.dry_run {
        repair = repair.dry_run();
    }
    if delete_orphans {
        repair = repair.delete_orphans();
    }
    check.repair(options.dry_run, repair.stream()).await
}
