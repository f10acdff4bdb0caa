//! The commands of the outlier pattern.

use mongo_patterns_core::Repository;
use mongo_patterns_outlier::OutlierRepository;
use mongodb::bson::{Bson, Document};

use crate::analyze::{self, Fields, Managed, Source, managed};
use crate::args::{DryRun, Listing, Outlier, OutlierVerb};
use crate::confirm::confirmed;
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::findings::{Check, unnamed};
use crate::migrate::{COMMANDS, Migrate, Mode};
use crate::selection::Selection;
use crate::settings::{OutlierSettings, check_different, check_fields, need, with_given};
use crate::{catalog, indexes, plan};

const PATTERN: &str = "outlier";

type Lists = OutlierRepository<Document, Bson>;

pub(crate) async fn run(context: &Context, pattern: &Outlier) -> Outcome {
    let settings = catalog::settings(context, &pattern.settings).await?;
    check(&settings)?;
    if !matches!(pattern.verb, OutlierVerb::Setup(_)) {
        context.must_have([&settings.collection]).await?;
    }
    let lists = repository(context, &settings)?;
    match &pattern.verb {
        OutlierVerb::Analyze(sample) => {
            let mut fields = Fields::of(need(settings.array.as_ref(), PATTERN, "array")?);
            fields.flag = settings.flag.as_deref().unwrap_or(fields.flag);
            fields.parent = settings.parent.as_deref().unwrap_or(fields.parent);
            fields.extras = settings.extras.clone().unwrap_or(fields.extras);
            let (collection, overflow) = (lists.collection(), lists.overflow_collection());
            let stored = [
                Managed::new(collection.name()).limit(Some(fields.array), "threshold", settings.threshold),
                Managed::new(overflow.name()).limit(Some(&fields.extras), "cap", settings.cap),
            ];
            managed::print(context, &stored, sample.sample).await?;
            let source = Source::Lists {
                collection: collection.name(),
                overflow: overflow.name(),
                fields,
                threshold: settings.threshold,
            };
            analyze::run(context, PATTERN, &source, *sample, None).await
        }
        OutlierVerb::Plan(selection) => migrate(context, &lists, selection, Mode::Plan).await,
        OutlierVerb::Migrate { selection, dry_run } => migrate(context, &lists, selection, dry_run.mode()).await,
        OutlierVerb::Verify(listing) => verify(context, &lists, *listing).await,
        OutlierVerb::Repair {
            options,
            delete_orphans,
            confirmation,
        } => {
            if *delete_orphans && !options.dry_run {
                let deleted =
                    "the overflow documents that belong to no document, which `--dry-run` lists, are deleted for good";
                confirmed(context.output, *confirmation, deleted).await?;
            }
            repair(context, &lists, *options, *delete_orphans).await
        }
        OutlierVerb::Setup(setup) => indexes::set_up(context, &lists, setup).await,
    }
}

fn check(settings: &OutlierSettings) -> Result<(), Failure> {
    let fields = [
        ("--array", &settings.array),
        ("--parent", &settings.parent),
        ("--flag", &settings.flag),
        ("--extras", &settings.extras),
        ("--seq", &settings.seq),
        ("--count", &settings.count),
    ];
    check_fields(fields)?;
    check_different(
        ["--collection", "--extras-collection"],
        [&settings.collection, &settings.extras_collection],
    )
}

fn repository(context: &Context, settings: &OutlierSettings) -> Result<Lists, Failure> {
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let extras = settings.extras_collection.clone();
    let extras = extras.unwrap_or_else(|| format!("{collection}_extras"));
    let main = context.database.collection::<Document>(collection);
    let builder = OutlierRepository::builder(main, context.database.collection::<Document>(&extras))
        .array_field(need(settings.array.as_ref(), PATTERN, "array")?)
        .parent_field(settings.parent.as_deref().unwrap_or("parent_id"))
        .threshold(settings.threshold.unwrap_or(50))
        .max_overflow_elements(settings.cap.unwrap_or(500));
    let mut builder = with_given!(
        builder,
        &settings.flag => flag_field,
        &settings.extras => overflow_field,
        &settings.seq => seq_field,
        &settings.count => count_field,
    );
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
    migrate.print(&summary, exit).await
}

async fn verify(context: &Context, lists: &Lists, listing: Listing) -> Outcome {
    let verify = |report| lists.verify().on_progress(report).stream();
    let check = Check::new(context, lists, "verify", "long lists");
    check.verify(listing, verify).await
}

async fn repair(context: &Context, lists: &Lists, options: DryRun, delete_orphans: bool) -> Outcome {
    let repair = |report| {
        let mut repair = lists.repair().on_progress(report);
        if options.dry_run {
            repair = repair.dry_run();
        }
        if delete_orphans {
            repair.delete_orphans()
        } else {
            repair
        }
        .stream()
    };
    let check = Check::new(context, lists, "repair", "long lists");
    check.repair(options, repair, unnamed).await
}
