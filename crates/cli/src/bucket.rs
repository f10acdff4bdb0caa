//! The commands of the bucket pattern.

mod invalid;
mod keys;
mod migrate;
mod work;

use mongo_patterns_core::Key;
use mongodb::bson::Uuid;
use mongodb::bson::oid::ObjectId;

use self::keys::{PATTERN, flat_key, key_type};
use self::work::Work;
use crate::analyze::{self, Managed, Source, managed};
use crate::args::{Bucket, BucketVerb, DryRun, Listing, Sample};
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::findings::{Check, unnamed};
use crate::migrate::Mode;
use crate::output::Summary;
use crate::settings::{BucketSettings, KeyType, check_different, check_fields, need};
use crate::{catalog, indexes};

pub(crate) async fn run(context: &Context, pattern: &Bucket) -> Outcome {
    let settings = catalog::settings(context, &pattern.settings).await?;
    check(&settings)?;
    check_collections(context, &settings, &pattern.verb).await?;
    if let BucketVerb::Analyze(sample) = &pattern.verb {
        return analyze(context, &settings, *sample).await;
    }
    match key_type(context, &settings).await? {
        KeyType::Int => Work::<i64>::new(context, &settings)?.run(&pattern.verb).await,
        KeyType::String => Work::<String>::new(context, &settings)?.run(&pattern.verb).await,
        KeyType::ObjectId => Work::<ObjectId>::new(context, &settings)?.run(&pattern.verb).await,
        KeyType::Uuid => Work::<Uuid>::new(context, &settings)?.run(&pattern.verb).await,
    }
}

/// Analyzes the flat collection, or the buckets if there is none.
async fn analyze(context: &Context, settings: &BucketSettings, sample: Sample) -> Outcome {
    let buckets = settings.collection.as_deref().zip(settings.items.as_deref());
    if let Some((collection, items)) = buckets {
        let buckets = Managed::new(collection).limit(Some(items), "page_size", settings.page_size);
        managed::print(context, &[buckets], sample.sample).await?;
    }
    if let (Some((collection, items)), None) = (buckets, &settings.flat) {
        if sample.sample.is_some() {
            // No index finds all buckets of the keys of a sample.
            let output = context.output;
            output.text("omit --sample to analyze the keys too, which reads all buckets")?;
            let namespace = format!("{}.{collection}", context.database.name());
            let summary = Summary::new("bucket analyze", namespace).row("sample", sample.sample);
            output.summary(&summary, Exit::Success)?;
            return Ok(Exit::Success);
        }
        let source = Source::Groups {
            collection,
            field: need(settings.key.as_ref(), PATTERN, "key")?,
            array: Some(items),
        };
        return analyze::run(context, PATTERN, &source, sample, None).await;
    }
    let source = Source::Groups {
        collection: need(settings.flat.as_ref(), PATTERN, "flat")?,
        field: flat_key(settings)?,
        array: None,
    };
    let invalid = invalid::find(context, settings, sample).await?;
    analyze::run(context, PATTERN, &source, sample, invalid.as_ref()).await
}

impl<K: Key> Work<'_, K> {
    async fn run(&self, verb: &BucketVerb) -> Outcome {
        match verb {
            BucketVerb::Plan(options) => self.migrate(options, Mode::Plan).await,
            BucketVerb::Migrate { options, dry_run } => self.migrate(options, dry_run.mode()).await,
            BucketVerb::Verify(listing) => self.verify(*listing).await,
            BucketVerb::Repair(options) => self.repair(*options).await,
            BucketVerb::Setup(setup) => indexes::set_up(self.context, &self.buckets, setup).await,
            BucketVerb::Resize { from, rate, dry_run } => self.resize(*from, *rate, dry_run.mode()).await,
            BucketVerb::RefreshFigures => self.refresh_figures().await,
            BucketVerb::Analyze(_) => unreachable!("analyze does not depend on the type of the keys"),
        }
    }

    fn check(&self, verb: &'static str) -> Check<'_> {
        Check::new(self.context, &self.buckets, verb, "buckets")
    }

    async fn verify(&self, listing: Listing) -> Outcome {
        let verify = |report| self.buckets.verify().on_progress(report).stream();
        self.check("verify").verify(listing, verify).await
    }

    async fn repair(&self, options: DryRun) -> Outcome {
        let repair = |report| {
            let repair = self.buckets.repair().on_progress(report);
            if options.dry_run { repair.dry_run() } else { repair }.stream()
        };
        self.check("repair").repair(options, repair, unnamed).await
    }
}

/// Checks that the collections that the command reads exist, before the settings that they may need.
async fn check_collections(context: &Context, settings: &BucketSettings, verb: &BucketVerb) -> Result<(), Failure> {
    let source = match verb {
        BucketVerb::Analyze(_) => return Ok(()),
        BucketVerb::Plan(options) | BucketVerb::Migrate { options, .. } if !options.back => Some(&settings.flat),
        BucketVerb::Setup(_) => None,
        _ => Some(&settings.collection),
    };
    need(settings.collection.as_ref(), PATTERN, "collection")?;
    context.must_have(source).await
}

fn check(settings: &BucketSettings) -> Result<(), Failure> {
    let fields = [
        ("--key", &settings.key),
        ("--flat-key", &settings.flat_key),
        ("--items", &settings.items),
        ("--count", &settings.count),
        ("--time", &settings.time),
        ("--item-id", &settings.item_id),
        ("--figures", &settings.figures),
        ("--window-field", &settings.window_field),
    ];
    check_fields(fields)?;
    check_fields([
        ("--sum", settings.sum.iter().flatten()),
        ("--min", settings.min.iter().flatten()),
        ("--max", settings.max.iter().flatten()),
        ("--count-by", settings.count_by.iter().flatten()),
    ])?;
    check_different(["--collection", "--flat"], [&settings.collection, &settings.flat])
}
