//! The commands of the embedded pattern.

use mongo_patterns_embedded::EmbeddedRepository;
use mongodb::Collection;
use mongodb::bson::Document;

use crate::analyze::{self, Fields, Managed, Source, managed};
use crate::args::{Embedded, EmbeddedMigration, EmbeddedVerb, Listing, Sample};
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::findings::Check;
use crate::migrate::{Migrate, Mode};
use crate::settings::{EmbeddedSettings, check_different, check_fields, need, with_given};
use crate::{catalog, indexes};

const PATTERN: &str = "embedded";

type Parents = EmbeddedRepository<Document, Document>;

pub(crate) async fn run(context: &Context, pattern: &Embedded) -> Outcome {
    let settings = catalog::settings(context, &pattern.settings).await?;
    check(&settings)?;
    if !matches!(pattern.verb, EmbeddedVerb::Setup(_) | EmbeddedVerb::Analyze(_)) {
        context.must_have([&settings.collection, &settings.source]).await?;
    }
    if let EmbeddedVerb::Analyze(sample) = &pattern.verb {
        return analyze(context, &settings, *sample).await;
    }
    let work = Work {
        context,
        settings: &settings,
        parents: repository(context, &settings)?,
    };
    match &pattern.verb {
        EmbeddedVerb::Plan(options) => work.migrate(options, Mode::Plan).await,
        EmbeddedVerb::Migrate { options, dry_run } => work.migrate(options, dry_run.mode()).await,
        EmbeddedVerb::Verify(listing) => work.verify("verify", *listing).await,
        EmbeddedVerb::Repair(_) => work.verify("repair", Listing { all: true }).await,
        EmbeddedVerb::Setup(setup) => indexes::set_up(context, &work.parents, setup).await,
        EmbeddedVerb::Analyze(_) => unreachable!("analyze needs no repository"),
    }
}

/// Analyzes the collection of the children, or the parents if there is none.
async fn analyze(context: &Context, settings: &EmbeddedSettings, sample: Sample) -> Outcome {
    let parents = settings.collection.as_deref().zip(settings.children.as_deref());
    if let Some((collection, children)) = parents {
        let parents = Managed::new(collection).limit(Some(children), "max_children", settings.max_children);
        managed::print(context, &[parents], sample.sample).await?;
    }
    let overflow = format!("{}_extras", settings.collection.as_deref().unwrap_or_default());
    let source = match (parents, &settings.source) {
        (Some((collection, children)), None) => Source::Lists {
            collection,
            overflow: &overflow,
            fields: Fields::of(children),
            threshold: None,
        },
        _ => Source::Groups {
            collection: need(settings.source.as_ref(), PATTERN, "source")?,
            field: need(settings.reference.as_ref(), PATTERN, "reference")?,
            array: None,
        },
    };
    analyze::run(context, PATTERN, &source, sample, None).await
}

fn check(settings: &EmbeddedSettings) -> Result<(), Failure> {
    let fields = [
        ("--children", &settings.children),
        ("--child-id", &settings.child_id),
        ("--reference", &settings.reference),
        ("--sort", &settings.sort),
    ];
    check_fields(fields)?;
    check_different(["--collection", "--source"], [&settings.collection, &settings.source])
}

fn repository(context: &Context, settings: &EmbeddedSettings) -> Result<Parents, Failure> {
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    let builder = EmbeddedRepository::builder(context.database.collection::<Document>(collection))
        .children_field(need(settings.children.as_ref(), PATTERN, "children")?)
        .max_children(settings.max_children.unwrap_or(100));
    Ok(with_given!(builder, &settings.child_id => child_id_field).build()?)
}

struct Work<'a> {
    context: &'a Context,
    settings: &'a EmbeddedSettings,
    parents: Parents,
}

impl Work<'_> {
    fn source(&self) -> Result<(Collection<Document>, &str), Failure> {
        let source = need(self.settings.source.as_ref(), PATTERN, "source")?;
        let reference = need(self.settings.reference.as_ref(), PATTERN, "reference")?;
        Ok((self.context.database.collection(source), reference))
    }

    async fn migrate(&self, options: &EmbeddedMigration, mode: Mode) -> Outcome {
        let (source, reference) = self.source()?;
        let migrate = Migrate {
            selection: Some(&options.selection),
            filtered: Some((source.clone(), options.selection.filter()?)),
            ..Migrate::new(self.context, &self.parents, mode, "parents")
        };
        let mut migration = self
            .parents
            .migrate_from_references(&source, reference)
            .chunk(options.chunk);
        if let Some(field) = &self.settings.sort {
            migration = migration.sort_by(field);
        }
        migrate.execute(migration).await
    }

    /// Verifies the parents and, if a source is set, finds documents that refer to no parent.
    async fn verify(&self, verb: &'static str, listing: Listing) -> Outcome {
        let (output, parents) = (self.context.output, &self.parents);
        let check = Check::new(self.context, parents, verb, "parents");
        let verify = |report| parents.verify().on_progress(report).stream();
        let (mut summary, mut found) = check.find(listing, verify).await?;
        if self.settings.source.is_some() {
            let (source, reference) = self.source()?;
            let of_references = Check::new(self.context, parents, verb, "references");
            let orphans = |report| parents.orphans(&source, reference).on_progress(report).stream();
            let orphans = of_references.print_all(listing, orphans).await?;
            summary = summary.row("orphans", orphans);
            found += orphans;
        }
        if verb == "verify" {
            return check.end(&summary, found).await;
        }
        let exit = Exit::of_findings(found);
        output.summary(&summary, exit)?;
        Ok(exit)
    }
}
