//! The commands of the reference pattern.

mod check;
mod migrate;

use mongo_patterns_core::FieldName;
use mongo_patterns_core::Repository;
use mongo_patterns_reference::{ReferenceRepository, ReferenceRepositoryBuilder};
use mongodb::bson::Document;

use crate::analyze::{Managed, managed, reference as analysis};
use crate::args::{Reference, ReferenceVerb};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::migrate::Mode;
use crate::settings::{ReferenceField, ReferenceSettings, check_different, need};
use crate::{catalog, indexes, reference_fields};

const PATTERN: &str = "reference";

type Documents = ReferenceRepository<Document, Document>;

pub(crate) async fn run(context: &Context, pattern: &Reference) -> Outcome {
    let settings = catalog::settings(context, &pattern.settings).await?;
    check(&settings)?;
    if !matches!(pattern.verb, ReferenceVerb::Setup(_)) {
        let further = settings.further.iter().flatten().map(|reference| &reference.collection);
        let named = [&settings.source_collection, &settings.collection]
            .into_iter()
            .chain(further);
        context.must_have(named).await?;
    }
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let sources = need(settings.source_collection.as_ref(), PATTERN, "source_collection")?;
    let references = reference_fields::all(&settings)?;
    let work = Work {
        context,
        documents: repository(context, [collection, sources], &settings, &references)?,
        references,
    };
    match &pattern.verb {
        ReferenceVerb::Analyze(options) => {
            let collection = work.documents.collection();
            let of = analysis::Of {
                collection: collection.name(),
                sources: work.documents.sources_collection(),
                version: settings.version_field.as_deref().unwrap_or("v"),
                references: &work.references,
            };
            let namespaces = work.documents.namespaces();
            let stored: Vec<Managed<'_>> = namespaces.iter().map(|name| Managed::new(&name.coll)).collect();
            managed::print(context, &stored, options.sample.sample).await?;
            analysis::run(context, &of, options).await
        }
        ReferenceVerb::Plan(options) => work.migrate(options, Mode::Plan).await,
        ReferenceVerb::Migrate { options, dry_run } => work.migrate(options, dry_run.mode()).await,
        ReferenceVerb::Verify(listing) => work.verify(*listing).await,
        ReferenceVerb::Repair(options) => work.repair(*options).await,
        ReferenceVerb::Setup(setup) => indexes::set_up(context, &work.documents, setup).await,
    }
}

/// The reference commands.
struct Work<'a> {
    context: &'a Context,
    documents: Documents,
    references: Vec<ReferenceField>,
}

fn check(settings: &ReferenceSettings) -> Result<(), Failure> {
    let collections = [&settings.collection, &settings.source_collection];
    check_different(["--collection", "--source-collection"], collections)?;
    let fields = [
        ("--version-field", &settings.version_field),
        ("--source-key", &settings.source_key),
    ];
    for (option, field) in fields {
        if let Some(field) = field {
            FieldName::new(field.as_str()).map_err(|error| Failure::usage(format!("{option}: {error}")))?;
        }
    }
    reference_fields::check(settings)
}

fn repository(
    context: &Context,
    [collection, sources]: [&str; 2],
    settings: &ReferenceSettings,
    references: &[ReferenceField],
) -> Result<Documents, Failure> {
    let of = |name: &str| context.database.collection::<Document>(name);
    let builder = ReferenceRepository::builder(of(collection), of(sources));
    let mut builder = match &settings.version_field {
        Some(field) => builder.version_field(field),
        None => builder,
    };
    if let Some(key) = &settings.source_key {
        builder = builder.source_key(key);
    }
    for (number, reference) in references.iter().enumerate() {
        builder = match &reference.collection {
            _ if number == 0 => first(builder, reference),
            None => builder.add_reference(reference.to_reference()),
            Some(collection) => builder.add_referring(of(collection), reference.to_reference()),
        };
    }
    Ok(builder.build()?)
}

/// Sets the reference of the builder itself.
fn first(
    builder: ReferenceRepositoryBuilder<Document, Document>,
    reference: &ReferenceField,
) -> ReferenceRepositoryBuilder<Document, Document> {
    let mut builder = builder.reference_field(&reference.field);
    for (target, source) in reference.copied() {
        builder = builder.copied_field(target, source);
    }
    if reference.array {
        builder = builder.array();
    }
    match reference.snapshot {
        true => builder.snapshot(),
        false => builder,
    }
}
