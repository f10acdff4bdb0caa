//! The commands of the subset pattern.

mod invalid;
mod migrate;

use mongo_patterns_subset::SubsetRepository;
use mongodb::bson::{Bson, Document};

use crate::analyze::{Managed, managed, subset as analysis};
use crate::args::{DryRun, Listing, Sample, Subset, SubsetForm, SubsetVerb};
use crate::confirm::confirmed;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::findings::{Check, unnamed};
use crate::migrate::Mode;
use crate::settings::{FurtherSubset, SubsetSettings, check_different, check_fields, need, with_given};
use crate::{catalog, indexes};

const PATTERN: &str = "subset";
/// The size of a subset, if no setting names one.
const SIZE: u32 = 10;

type Parents = SubsetRepository<Document, Document>;

pub(crate) async fn run(context: &Context, pattern: &Subset) -> Outcome {
    let settings = catalog::settings(context, &pattern.settings).await?;
    check(&settings)?;
    check_collections(context, &settings, &pattern.verb).await?;
    if let SubsetVerb::Analyze(sample) = &pattern.verb {
        // Not all settings are needed to analyze the children.
        let invalid = match repository(context, &settings) {
            Ok(parents) => invalid::find(&parents, &settings, *sample).await?,
            Err(_) => None,
        };
        print_stored(context, &settings, *sample).await?;
        return analysis::run(context, &settings, *sample, invalid.as_ref()).await;
    }
    let work = Work {
        context,
        settings: &settings,
        parents: repository(context, &settings)?,
    };
    match &pattern.verb {
        SubsetVerb::Plan(options) => work.migrate(options, Mode::Plan).await,
        SubsetVerb::Migrate {
            options,
            dry_run,
            confirmation,
        } => {
            if options.discard_embedded && options.from == SubsetForm::Collection && !dry_run.dry_run {
                let deleted = "the embedded children that are not in their collection are deleted for good";
                confirmed(context.output, *confirmation, deleted).await?;
            }
            work.migrate(options, dry_run.mode()).await
        }
        SubsetVerb::Verify(listing) => work.verify(*listing).await,
        SubsetVerb::Repair(options) => work.repair(*options).await,
        SubsetVerb::Setup(setup) => indexes::set_up(context, &work.parents, setup).await,
        SubsetVerb::Analyze(_) => unreachable!("analyze needs no repository"),
    }
}

/// Prints the sizes of the stored parents and children.
async fn print_stored(context: &Context, settings: &SubsetSettings, sample: Sample) -> Result<(), Failure> {
    let mut stored = Vec::new();
    if let Some(parents) = settings.collection.as_deref() {
        let parents = |field, size| Managed::new(parents).limit(field, "size", size);
        stored.push(parents(settings.subset.as_deref(), settings.size));
        let further = settings.further.iter().flatten();
        stored.extend(further.map(|subset| parents(Some(subset.field.as_str()), Some(subset.size.unwrap_or(SIZE)))));
    }
    stored.extend(settings.children_collection.as_deref().map(Managed::new));
    managed::print(context, &stored, sample.sample).await
}

/// The subset commands.
struct Work<'a> {
    context: &'a Context,
    settings: &'a SubsetSettings,
    parents: Parents,
}

impl Work<'_> {
    fn check(&self, verb: &'static str) -> Check<'_> {
        Check::new(self.context, &self.parents, verb, "parents")
    }

    async fn verify(&self, listing: Listing) -> Outcome {
        let verify = |report| self.parents.verify().on_progress(report).stream();
        self.check("verify").verify(listing, verify).await
    }

    async fn repair(&self, options: DryRun) -> Outcome {
        let repair = |report| {
            let repair = self.parents.repair().on_progress(report);
            if options.dry_run { repair.dry_run() } else { repair }.stream()
        };
        self.check("repair").repair(options, repair, unnamed).await
    }
}

/// Checks that the collections that the command reads exist, before the settings that they may need.
async fn check_collections(context: &Context, settings: &SubsetSettings, verb: &SubsetVerb) -> Result<(), Failure> {
    let writes_children = match verb {
        SubsetVerb::Setup(_) | SubsetVerb::Analyze(_) => return Ok(()),
        SubsetVerb::Plan(options) | SubsetVerb::Migrate { options, .. } => options.from == SubsetForm::Embedded,
        _ => false,
    };
    let children = (!writes_children).then_some(&settings.children_collection);
    context
        .must_have([&settings.collection].into_iter().chain(children))
        .await
}

fn repository(context: &Context, settings: &SubsetSettings) -> Result<Parents, Failure> {
    let database = &context.database;
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let children = need(settings.children_collection.as_ref(), PATTERN, "children_collection")?;
    let parents = database.collection::<Document>(collection);
    let order = settings.order.as_deref().unwrap_or_default();
    if order.is_empty() {
        need(None, PATTERN, "order")?;
    }
    let first = mongo_patterns_subset::Subset::new(need(settings.subset.as_ref(), PATTERN, "subset")?)
        .size(settings.size.unwrap_or(SIZE));
    let first = with_given!(ordered(first, order), settings.embed.clone() => embedded_fields);
    let builder = SubsetRepository::builder(parents, database.collection::<Document>(children))
        .parent_field(need(settings.parent.as_ref(), PATTERN, "parent")?)
        .child_id_field(need(settings.child_id.as_ref(), PATTERN, "child_id")?)
        .subset(first);
    let mut builder = with_given!(builder, &settings.version => version_field, &settings.total => total_field);
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
    for subset in settings.further.iter().flatten() {
        builder = builder.subset(further(subset));
    }
    Ok(builder.build()?)
}

fn further(settings: &FurtherSubset) -> mongo_patterns_subset::Subset {
    let subset = mongo_patterns_subset::Subset::new(&settings.field).size(settings.size.unwrap_or(SIZE));
    with_given!(
        ordered(subset, &settings.order),
        settings.filter.clone() => filter,
        settings.embedded_fields.clone() => embedded_fields,
    )
}

/// Orders a subset by fields, which descend after `-`.
fn ordered(subset: mongo_patterns_subset::Subset, fields: &[String]) -> mongo_patterns_subset::Subset {
    let sort = fields.iter().map(|field| match field.strip_prefix('-') {
        Some(field) => (field.to_owned(), Bson::Int32(-1)),
        None => (field.clone(), Bson::Int32(1)),
    });
    subset.sort(sort.collect())
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
    check_fields(fields)?;
    for (option, settings) in [
        ("--sum", &settings.sum),
        ("--min", &settings.min),
        ("--max", &settings.max),
        ("--count-by", &settings.count_by),
    ] {
        let names = computed(settings.as_ref()).flat_map(|(field, of)| [field.to_owned(), of.to_owned()]);
        check_fields([(option, &names.collect::<Vec<_>>())])?;
    }
    check_fields([("--embed", settings.embed.iter().flatten())])?;
    let order = settings.order.iter().flatten();
    let order = order.map(|name| name.trim_start_matches('-').to_owned());
    check_fields([("--order", &order.collect::<Vec<_>>())])?;
    let collections = [&settings.collection, &settings.children_collection];
    check_different(["--collection", "--children-collection"], collections)
}
