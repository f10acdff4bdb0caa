//! The commands of the outlier pattern.

use mongo_patterns_core::Repository;
use mongo_patterns_outlier::OutlierRepository;
use mongodb::bson::{Bson, Document};

use crate::analyze::{self, Fields, Source};
use crate::args::{DryRun, Outlier, OutlierVerb};
use crate::failure::{Exit, Failure, Outcome};
use crate::findings::Check;
use crate::migrate::{COMMANDS, Migrate, Mode};
use crate::output::Output;
use crate::profile::overlay;
use crate::selection::Selection;
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
            let collection = lists.collection();
            let source = Source::Lists {
                collection: collection.name(),
                overflow: lists.overflow_collection().name(),
                fields,
                threshold: settings.threshold,
            };
            analyze::run(context, PATTERN, &source, *sample, None).await
        }
        OutlierVerb::Plan(selection) => migrate(context, &lists, selection, Mode::Plan).await,
        OutlierVerb::Migrate { selection, dry_run } => migrate(context, &lists, selection, dry_run.mode()).await,
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
        .max_overflow_elements(settings.cap.unwrap_or(500));
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

/// Migrates, and then creates the indexes, which some documents would violate before.
async fn migrate(context: &Context, lists: &Lists, selection: &Selection, mode: Mode) -> Outcome {
    let migrate = Migrate {
        selection: Some(selection),
        omits: &COMMANDS,
        ..Migrate::new(context, lists, mode, "long lists")
    };
    let Some((summary, exit)) = migrate.run(lists.migrate_existing()).await? else {
        for planned in lists.ensure_indexes().plan_after_migration().await? {
            plan::print_one(context.output, &planned)?;
        }
        return Ok(Exit::Success);
    };
    let summary = match mode {
        Mode::Run => summary.row("created_indexes", lists.ensure_indexes().await?.created.len()),
        _ => summary,
    };
    migrate.print(&summary, exit)
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
