//! The commands of the subset pattern.

mod invalid;
mod migrate;

use mongo_patterns_subset::SubsetRepository;
use mongodb::bson::Document;

use crate::analyze::subset as analysis;
use crate::args::{DryRun, Subset, SubsetForm, SubsetVerb};
use crate::failure::{Failure, Outcome};
use crate::findings::Check;
use crate::migrate::Mode;
use crate::nested::further;
use crate::profile::overlay;
use crate::settings::{SubsetSettings, check_different, check_fields, need};
use crate::{Context, catalog, indexes, shard};

const PATTERN: &str = "subset";

type Parents = SubsetRepository<Document, Document>;

pub(crate) async fn run(context: &Context, pattern: &Subset) -> Outcome {
    let settings = overlay(context.profile.subset.as_ref(), &pattern.settings)?;
    let settings = catalog::complete(context, settings).await?;
    if let SubsetVerb::Analyze(sample) = &pattern.verb {
        // Not all settings are needed to analyze the children.
        let invalid = match repository(context, &settings) {
            Ok(parents) => invalid::find(&parents, &settings, *sample).await?,
            Err(_) => None,
        };
        return analysis::run(context, &settings, *sample, invalid.as_ref()).await;
    }
    let work = Work {
        context,
        settings: &settings,
        parents: repository(context, &settings)?,
    };
    work.check_collections(&pattern.verb).await?;
    let output = context.output;
    match &pattern.verb {
        SubsetVerb::Plan(options) => work.migrate(options, Mode::Plan).await,
        SubsetVerb::Migrate { options, dry_run } => work.migrate(options, dry_run.mode()).await,
        SubsetVerb::Verify => work.verify().await,
        SubsetVerb::Repair(options) => work.repair(*options).await,
        SubsetVerb::Shard(options) => shard::run(context, &work.parents, options).await,
        SubsetVerb::Indexes(create) => indexes::run(output, &work.parents, *create).await,
        SubsetVerb::Analyze(_) => unreachable!("analyze needs no repository"),
    }
}

/// The subset commands.
struct Work<'a> {
    context: &'a Context,
    settings: &'a SubsetSettings,
    parents: Parents,
}

impl Work<'_> {
    /// Checks that the collections that the command reads exist.
    async fn check_collections(&self, verb: &SubsetVerb) -> Result<(), Failure> {
        if matches!(verb, SubsetVerb::Indexes(_) | SubsetVerb::Shard(_)) {
            return Ok(());
        }
        self.context.must_exist(self.parents.collection().name()).await?;
        let writes_children = match verb {
            SubsetVerb::Plan(options) | SubsetVerb::Migrate { options, .. } => options.from == SubsetForm::Embedded,
            _ => false,
        };
        if writes_children {
            return Ok(());
        }
        self.context.must_exist(self.parents.children_collection().name()).await
    }

    fn check(&self, verb: &'static str) -> Check<'_> {
        Check::new(self.context.output, &self.parents, verb, "parents")
    }

    async fn verify(&self) -> Outcome {
        let check = self.check("verify");
        let verify = self.parents.verify().on_progress(check.progress.callback());
        check.verify(verify.stream()).await
    }

    async fn repair(&self, options: DryRun) -> Outcome {
        let check = self.check("repair");
        let mut repair = self.parents.repair().on_progress(check.progress.callback());
        if options.dry_run {
            repair = repair.dry_run();
        }
        check.repair(options.dry_run, repair.stream()).await
    }
}

fn repository(context: &Context, settings: &SubsetSettings) -> Result<Parents, Failure> {
    check(settings)?;
    let database = &context.database;
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let children = need(settings.children_collection.as_ref(), PATTERN, "children_collection")?;
    check_different(["--collection", "--children-collection"], [collection, children])?;
    let parents = database.collection::<Document>(collection);
    let order = settings.order.as_deref().unwrap_or_default();
    if order.is_empty() {
        need(None, PATTERN, "order")?;
    }
    let first = mongo_patterns_subset::Subset::new(need(settings.subset.as_ref(), PATTERN, "subset")?)
        .size(settings.size.unwrap_or(10));
    let mut first = further::ordered(first, order);
    if let Some(fields) = &settings.embed {
        first = first.embedded_fields(fields.iter().cloned());
    }
    let mut builder = SubsetRepository::builder(parents, database.collection::<Document>(children))
        .parent_field(need(settings.parent.as_ref(), PATTERN, "parent")?)
        .child_id_field(need(settings.child_id.as_ref(), PATTERN, "child_id")?)
        .subset(first);
    if let Some(field) = &settings.version {
        builder = builder.version_field(field);
    }
    if let Some(field) = &settings.total {
        builder = builder.total_field(field);
    }
    for (field, of) in computed(settings.sum.as_ref()) {
        builder = builder.sum(of, field);
    }
    for (field, of) in computed(settings.min.as_ref()) {
        builder = builder.min(of, field);
    }
    for (field, of) in computed(settings.max.as_ref()) {
        builder = builder.max(of, field);
    }
    for (field, of) in computed(settings.count_by.as_ref()) {
        builder = builder.count_by(of, field);
    }
    for subset in settings.add_subset.iter().flatten() {
        builder = builder.subset(further::parse("--add-subset", subset)?);
    }
    Ok(builder.build()?)
}

/// Returns the field of a parent and that of a child from each `field=child's field`.
fn computed(settings: Option<&Vec<String>>) -> impl Iterator<Item = (&str, &str)> {
    let settings = settings.into_iter().flatten();
    settings.map(|setting| setting.split_once('=').unwrap_or((setting, "")))
}

fn check(settings: &SubsetSettings) -> Result<(), Failure> {
    let fields = [
        ("--subset", &settings.subset),
        ("--parent", &settings.parent),
        ("--child-id", &settings.child_id),
        ("--version", &settings.version),
        ("--total", &settings.total),
    ];
    check_fields(
        fields
            .into_iter()
            .filter_map(|(option, name)| Some((option, name.as_ref()?))),
    )?;
    for (option, settings) in [
        ("--sum", &settings.sum),
        ("--min", &settings.min),
        ("--max", &settings.max),
        ("--count-by", &settings.count_by),
    ] {
        let names = computed(settings.as_ref()).flat_map(|(field, of)| [field.to_owned(), of.to_owned()]);
        let names: Vec<String> = names.collect();
        check_fields(names.iter().map(|name| (option, name)))?;
    }
    check_fields(settings.embed.iter().flatten().map(|name| ("--embed", name)))?;
    let order = settings.order.iter().flatten();
    let order: Vec<String> = order.map(|name| name.trim_start_matches('-').to_owned()).collect();
    check_fields(order.iter().map(|name| ("--order", name)))
}
