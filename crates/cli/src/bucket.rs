//! The commands of the bucket pattern.

mod invalid;
mod migrate;

use std::time::Duration;

use futures::TryStreamExt;
use mongo_patterns_bucket::{BucketRepository, BucketRepositoryBuilder, Window};
use mongo_patterns_core::Key;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Bson, Document, Uuid, doc};
use mongodb::{Collection, Database};

use crate::Context;
use crate::analyze::{self, Source};
use crate::args::{Bucket, BucketVerb, DryRun};
use crate::failure::{Exit, Failure, Outcome};
use crate::findings::Check;
use crate::output::Summary;
use crate::profile::overlay;
use crate::settings::{BucketSettings, KeyType, check_different, check_fields, need};
use crate::{catalog, indexes, plan, shard};

const PATTERN: &str = "bucket";

/// The number of documents that show the type of the keys.
const SAMPLED_KEYS: i64 = 100;

type Buckets<K> = BucketRepository<K, Document>;

pub(crate) async fn run(context: &Context, pattern: &Bucket) -> Outcome {
    let settings = overlay(context.profile.bucket.as_ref(), &pattern.settings)?;
    let settings = catalog::complete(context, settings).await?;
    check(&settings)?;
    if let BucketVerb::Analyze(sample) = &pattern.verb {
        let source = Source::Groups {
            collection: need(settings.flat.as_ref(), PATTERN, "flat")?,
            field: flat_key(&settings)?,
        };
        let invalid = invalid::find(context, &settings, *sample).await?;
        return analyze::run(context, PATTERN, &source, *sample, invalid.as_ref()).await;
    }
    match key_type(context, &settings).await? {
        KeyType::Int => Work::<i64>::new(context, &settings)?.run(&pattern.verb).await,
        KeyType::String => Work::<String>::new(context, &settings)?.run(&pattern.verb).await,
        KeyType::ObjectId => Work::<ObjectId>::new(context, &settings)?.run(&pattern.verb).await,
        KeyType::Uuid => Work::<Uuid>::new(context, &settings)?.run(&pattern.verb).await,
    }
}

/// The bucket commands, for one type of key.
struct Work<'a, K> {
    context: &'a Context,
    settings: &'a BucketSettings,
    buckets: Buckets<K>,
}

impl<'a, K: Key> Work<'a, K> {
    fn new(context: &'a Context, settings: &'a BucketSettings) -> Result<Self, Failure> {
        Ok(Self {
            context,
            settings,
            buckets: repository(context, settings)?,
        })
    }

    async fn run(&self, verb: &BucketVerb) -> Outcome {
        let output = self.context.output;
        self.check_collections(verb).await?;
        match verb {
            BucketVerb::Plan(options) => {
                let planned = self.plan(options).await?;
                plan::print(output, &self.context.database, &planned.commands)
            }
            BucketVerb::Migrate { options, dry_run } if dry_run.dry_run => self.dry_run(options).await,
            BucketVerb::Migrate { options, .. } => self.migrate(options).await,
            BucketVerb::Verify => self.verify().await,
            BucketVerb::Repair(options) => self.repair(*options).await,
            BucketVerb::Indexes(create) => indexes::run(output, &self.buckets, *create).await,
            BucketVerb::Shard(options) => shard::run(self.context, &self.buckets, options).await,
            BucketVerb::Resize { from } => self.resize(*from).await,
            BucketVerb::View { name } => self.view(name).await,
            BucketVerb::Figures => self.rebuild_figures().await,
            BucketVerb::Analyze(_) => unreachable!("analyze does not depend on the type of the keys"),
        }
    }

    async fn view(&self, name: &str) -> Outcome {
        self.buckets.create_view(name).await?;
        let summary = Summary::of(&self.buckets, "view").row("view", name);
        self.context.output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    /// Checks that the collections that the command reads exist.
    async fn check_collections(&self, verb: &BucketVerb) -> Result<(), Failure> {
        let buckets = self.buckets.collection().name();
        match verb {
            BucketVerb::Verify
            | BucketVerb::Repair(_)
            | BucketVerb::Resize { .. }
            | BucketVerb::View { .. }
            | BucketVerb::Figures => self.context.must_exist(buckets).await,
            BucketVerb::Plan(options) | BucketVerb::Migrate { options, .. } if options.back => {
                self.context.must_exist(buckets).await
            }
            BucketVerb::Plan(_) | BucketVerb::Migrate { .. } => self.context.must_exist(self.flat()?.name()).await,
            BucketVerb::Analyze(_) | BucketVerb::Indexes(_) | BucketVerb::Shard(_) => Ok(()),
        }
    }

    fn check(&self, verb: &'static str) -> Check<'_> {
        let check = Check::new(self.context.output, &self.buckets, verb, "buckets");
        check.progress.show("the server reads and sorts the buckets");
        check
    }

    async fn verify(&self) -> Outcome {
        let check = self.check("verify");
        let verify = self.buckets.verify().on_progress(check.progress.callback());
        check.verify(verify.stream()).await
    }

    async fn repair(&self, options: DryRun) -> Outcome {
        let check = self.check("repair");
        let mut repair = self.buckets.repair().on_progress(check.progress.callback());
        if options.dry_run {
            repair = repair.dry_run();
        }
        check.repair(options.dry_run, repair.stream()).await
    }

    fn flat(&self) -> Result<Collection<Document>, Failure> {
        let name = need(self.settings.flat.as_ref(), PATTERN, "flat")?;
        Ok(self.context.database.collection(name))
    }
}

fn repository<K: Key>(context: &Context, settings: &BucketSettings) -> Result<Buckets<K>, Failure> {
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let mut builder = BucketRepository::builder(context.database.collection::<Document>(collection))
        .key_field(need(settings.key.as_ref(), PATTERN, "key")?)
        .items_field(need(settings.items.as_ref(), PATTERN, "items")?)
        .page_size(settings.page_size.unwrap_or(10));
    if let Some(field) = &settings.count {
        builder = builder.count_field(field);
    }
    if let Some(field) = &settings.time {
        builder = builder.time_field(field);
    }
    if let Some(field) = &settings.item_id {
        builder = builder.item_id_field(field);
    }
    if let Some(seconds) = settings.window_seconds {
        builder = builder.window(Window::every(Duration::from_secs(seconds.into())));
    }
    if let Some(field) = &settings.window_field {
        builder = builder.window_field(field);
    }
    Ok(with_figures(builder, settings).build()?)
}

fn with_figures<K: Key>(
    mut builder: BucketRepositoryBuilder<K, Document>,
    settings: &BucketSettings,
) -> BucketRepositoryBuilder<K, Document> {
    for field in settings.sum.iter().flatten() {
        builder = builder.sum(field);
    }
    for field in settings.min.iter().flatten() {
        builder = builder.min(field);
    }
    for field in settings.max.iter().flatten() {
        builder = builder.max(field);
    }
    for field in settings.count_by.iter().flatten() {
        builder = builder.count_by(field);
    }
    if settings.first_and_last == Some(true) {
        builder = builder.first_and_last();
    }
    if let Some(seconds) = settings.expire_after_seconds {
        builder = builder.expire_after(Duration::from_secs(seconds.into()));
    }
    if let Some(field) = &settings.figures {
        builder = builder.figures_field(field);
    }
    builder
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
    check_fields(
        fields
            .into_iter()
            .filter_map(|(option, name)| Some((option, name.as_ref()?))),
    )?;
    let figures = [
        ("--sum", &settings.sum),
        ("--min", &settings.min),
        ("--max", &settings.max),
        ("--count-by", &settings.count_by),
    ];
    for (option, names) in figures {
        check_fields(names.iter().flatten().map(|name| (option, name)))?;
    }
    match (&settings.collection, &settings.flat) {
        (Some(buckets), Some(flat)) => check_different(["--collection", "--flat"], [buckets, flat]),
        _ => Ok(()),
    }
}

fn flat_key(settings: &BucketSettings) -> Result<&str, Failure> {
    match &settings.flat_key {
        Some(field) => Ok(field),
        None => need(settings.key.as_ref(), PATTERN, "key"),
    }
}

/// Returns the type that is set, or that of the first buckets or flat documents.
async fn key_type(context: &Context, settings: &BucketSettings) -> Result<KeyType, Failure> {
    if let Some(key_type) = settings.key_type {
        return Ok(key_type);
    }
    let key = need(settings.key.as_ref(), PATTERN, "key")?;
    let database = &context.database;
    let candidates = [(&settings.collection, key), (&settings.flat, flat_key(settings)?)];
    for (collection, field) in candidates {
        if let Some(collection) = collection
            && let Some(value) = typical_value(database, collection, field).await?
        {
            let problem = match &value {
                Bson::Binary(key) if key.subtype == BinarySubtype::UuidOld => {
                    "has UUIDs of the legacy subtype 3, whose order of bytes depends on the driver that wrote them, so they cannot be keys: store them with subtype 4 first, read by the representation of that driver (`javaLegacy`, `csharpLegacy` or `pythonLegacy`)"
                }
                _ => "is not an integer, string, ObjectId or UUID and cannot be a key: check --key",
            };
            return type_of(&value).ok_or_else(|| {
                Failure::usage(format!(
                    "the field `{field}` of {}.{collection} {problem}",
                    database.name()
                ))
            });
        }
    }
    Err(Failure::usage(
        "--key-type is missing, and no document shows the type: pass int, string, objectid or uuid",
    ))
}

/// Returns the value of the most common type among the first documents that have the field.
async fn typical_value(database: &Database, collection: &str, field: &str) -> Result<Option<Bson>, Failure> {
    let collection = database.collection::<Document>(collection);
    let found = collection.find(doc! { field: { "$ne": null } }).limit(SAMPLED_KEYS);
    let mut found = found.projection(doc! { field: 1 }).await?;
    let mut values: Vec<(Option<KeyType>, Bson, u32)> = Vec::new();
    while let Some(mut document) = found.try_next().await? {
        let Some(value) = document.remove(field) else { continue };
        let of_value = type_of(&value);
        match values.iter_mut().find(|(of, _, _)| *of == of_value) {
            Some((_, _, number)) => *number += 1,
            None => values.push((of_value, value, 1)),
        }
    }
    let typical = values.into_iter().max_by_key(|(_, _, number)| *number);
    Ok(typical.map(|(_, value, _)| value))
}

pub(crate) fn type_of(value: &Bson) -> Option<KeyType> {
    match value {
        Bson::Int32(_) | Bson::Int64(_) => Some(KeyType::Int),
        // The legacy shell writes integers as doubles.
        Bson::Double(number) if number.fract() == 0.0 => Some(KeyType::Int),
        Bson::String(_) => Some(KeyType::String),
        Bson::ObjectId(_) => Some(KeyType::ObjectId),
        Bson::Binary(binary) if binary.subtype == BinarySubtype::Uuid => Some(KeyType::Uuid),
        _ => None,
    }
}
