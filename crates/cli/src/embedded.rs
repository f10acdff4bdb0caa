//! The commands of the embedded pattern.

use futures::TryStreamExt;
use mongo_patterns_embedded::EmbeddedRepository;
use mongo_patterns_embedded::action::{MigrateFromReferences, MigrateToReferences};
use mongodb::Collection;
use mongodb::bson::Document;
use serde_json::json;

use crate::analyze::{self, Source};
use crate::args::{Embedded, EmbeddedMigration, EmbeddedVerb};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Record, Summary, to_json};
use crate::profile::overlay;
use crate::progress::SharedProgress;
use crate::settings::{EmbeddedSettings, check_different, check_fields, need};
use crate::{Context, catalog, indexes, plan, shard};

const PATTERN: &str = "embedded";

type Parents = EmbeddedRepository<Document, Document>;

pub(crate) async fn run(context: &Context, pattern: &Embedded) -> Outcome {
    let settings = overlay(context.profile.embedded.as_ref(), &pattern.settings)?;
    let settings = catalog::complete(context, settings).await?;
    if let EmbeddedVerb::Analyze(sample) = &pattern.verb {
        let source = Source::Groups {
            collection: need(settings.source.as_ref(), PATTERN, "source")?,
            field: need(settings.reference.as_ref(), PATTERN, "reference")?,
        };
        return analyze::run(context, PATTERN, &source, *sample, None).await;
    }
    let work = Work {
        context,
        settings: &settings,
        parents: repository(context, &settings)?,
    };
    work.check_collections(&pattern.verb).await?;
    match &pattern.verb {
        EmbeddedVerb::Plan(options) => work.plan(options, false).await,
        EmbeddedVerb::Migrate { options, dry_run } if dry_run.dry_run => work.plan(options, true).await,
        EmbeddedVerb::Migrate { options, .. } => work.migrate(options).await,
        EmbeddedVerb::Verify => work.verify("embedded verify").await,
        EmbeddedVerb::Repair(_) => work.verify("embedded repair").await,
        EmbeddedVerb::Shard(options) => {
            let ensure = work.parents.ensure_sharded();
            let of = ("embedded shard", work.parents.collection().namespace().to_string());
            shard::run(context, of, ensure, &work.parents.shard_keys(), options).await
        }
        EmbeddedVerb::Indexes(create) if create.create => {
            let ensured = indexes::create(work.parents.ensure_indexes(), *create).await?;
            let namespace = work.parents.collection().namespace().to_string();
            indexes::created(context.output, "embedded indexes", namespace, &ensured)
        }
        EmbeddedVerb::Indexes(_) | EmbeddedVerb::Analyze(_) => {
            let (plan, collection) = (work.parents.indexes(), work.parents.collection());
            indexes::show(context.output, "embedded indexes", &plan, collection).await
        }
    }
}

fn repository(context: &Context, settings: &EmbeddedSettings) -> Result<Parents, Failure> {
    let fields = [
        ("--children", &settings.children),
        ("--child-id", &settings.child_id),
        ("--reference", &settings.reference),
        ("--sort", &settings.sort),
    ];
    check_fields(
        fields
            .into_iter()
            .filter_map(|(option, name)| Some((option, name.as_ref()?))),
    )?;
    let collection = need(settings.collection.as_ref(), PATTERN, "collection")?;
    if let Some(source) = &settings.source {
        check_different(["--collection", "--source"], [collection, source])?;
    }
    let mut builder = EmbeddedRepository::builder(context.database.collection::<Document>(collection))
        .children_field(need(settings.children.as_ref(), PATTERN, "children")?)
        .max_children(settings.max_children.unwrap_or(100));
    if let Some(field) = &settings.child_id {
        builder = builder.child_id_field(field);
    }
    Ok(builder.build()?)
}

struct Work<'a> {
    context: &'a Context,
    settings: &'a EmbeddedSettings,
    parents: Parents,
}

impl Work<'_> {
    /// Checks that the collections that the command reads exist.
    async fn check_collections(&self, verb: &EmbeddedVerb) -> Result<(), Failure> {
        if matches!(verb, EmbeddedVerb::Indexes(_) | EmbeddedVerb::Shard(_)) {
            return Ok(());
        }
        if matches!(verb, EmbeddedVerb::Plan(_) | EmbeddedVerb::Migrate { .. }) {
            self.source()?;
        }
        self.context.must_exist(self.parents.collection().name()).await?;
        let writes_source = match verb {
            EmbeddedVerb::Plan(options) | EmbeddedVerb::Migrate { options, .. } => options.back,
            _ => false,
        };
        match &self.settings.source {
            Some(source) if !writes_source => self.context.must_exist(source).await,
            _ => Ok(()),
        }
    }

    fn source(&self) -> Result<(Collection<Document>, &str), Failure> {
        let source = need(self.settings.source.as_ref(), PATTERN, "source")?;
        let reference = need(self.settings.reference.as_ref(), PATTERN, "reference")?;
        Ok((self.context.database.collection(source), reference))
    }

    async fn plan(&self, options: &EmbeddedMigration, summary_only: bool) -> Outcome {
        let (source, reference) = self.source()?;
        let planned = if options.back {
            self.migrate_to_references(&source, reference, options).plan().await?
        } else {
            self.migrate_from_references(&source, reference, options)?
                .plan()
                .await?
        };
        if !summary_only {
            return plan::print(self.context.output, &self.context.database, &planned.commands);
        }
        let summary = Summary::new(
            "embedded migrate --dry-run",
            self.parents.collection().namespace().to_string(),
        )
        .row("children", planned.children)
        .row("orphans", planned.orphans)
        .row("commands", planned.commands.len());
        let summary = options.selection.rows(summary, [("child_id", planned.skipped)]);
        self.context.output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    async fn migrate(&self, options: &EmbeddedMigration) -> Outcome {
        let (source, reference) = self.source()?;
        let unit = if options.back { "children" } else { "parents" };
        let progress = SharedProgress::new(self.context.output, "migrate", unit, None);
        progress.show("the server checks all documents, then migrates the first chunk");
        let migrated = if options.back {
            let migration = self.migrate_to_references(&source, reference, options);
            migration.on_progress(progress.callback()).await
        } else {
            let migration = self.migrate_from_references(&source, reference, options)?;
            migration.on_progress(progress.callback()).await
        };
        progress.end();
        let migrated = migrated?;
        let exit = Exit::of_findings(migrated.orphans);
        let summary = Summary::new("embedded migrate", self.parents.collection().namespace().to_string())
            .row("parents", migrated.parents)
            .row("children", migrated.children)
            .row("orphans", migrated.orphans);
        let summary = options.selection.rows(summary, [("child_id", migrated.skipped)]);
        self.context.output.summary(&summary, exit)?;
        if migrated.orphans > 0 {
            self.context
                .output
                .text("`embedded verify` lists the orphans, which are not migrated")?;
        }
        Ok(exit)
    }

    fn migrate_to_references(
        &self,
        target: &Collection<Document>,
        reference: &str,
        options: &EmbeddedMigration,
    ) -> MigrateToReferences<'_> {
        let migration = self.parents.migrate_to_references(target, reference);
        match options.rate {
            Some(rate) => migration.rate(rate),
            None => migration,
        }
    }

    fn migrate_from_references(
        &self,
        source: &Collection<Document>,
        reference: &str,
        options: &EmbeddedMigration,
    ) -> Result<MigrateFromReferences<'_>, Failure> {
        let mut migration = self.parents.migrate_from_references(source, reference);
        if let Some(field) = &self.settings.sort {
            migration = migration.sort_by(field);
        }
        if let Some(rate) = options.rate {
            migration = migration.rate(rate);
        }
        if let Some(filter) = options.selection.filter()? {
            migration = migration.filter(filter);
        }
        if let Some(list) = options.selection.skipped(self.context) {
            migration = migration.skip_invalid(&list);
        }
        Ok(migration)
    }

    /// Verifies the parents and, if a source is set, finds documents that refer to no parent.
    async fn verify(&self, command: &'static str) -> Outcome {
        let output = self.context.output;
        let mut found = shard::verify(output, self.parents.verify_shard_keys()).await?;
        let progress = SharedProgress::new(output, "verify", "parents", None);
        let mut findings = self.parents.verify().on_progress(progress.callback()).stream();
        while let Some(finding) = findings.try_next().await? {
            found += 1;
            progress.suspend(|| {
                output.record(Record {
                    kind: "finding",
                    collection: self.parents.collection().name(),
                    id: Some(finding.document_id.clone()),
                    text: finding.problem.to_string(),
                    fields: vec![("problem", json!(finding.problem.name()))],
                })
            })?;
        }
        progress.end();
        let mut summary =
            Summary::new(command, self.parents.collection().namespace().to_string()).row("findings", found);
        let mut orphans = 0;
        if self.settings.source.is_some() {
            orphans = self.orphans().await?;
            summary = summary.row("orphans", orphans);
        }
        let exit = Exit::of_findings(found + orphans);
        output.summary(&summary, exit)?;
        Ok(exit)
    }

    async fn orphans(&self) -> Result<u64, Failure> {
        let (source, reference) = self.source()?;
        let progress = SharedProgress::new(self.context.output, "verify", "references", None);
        let mut found = 0;
        let orphans = self.parents.orphans(&source, reference);
        let mut orphans = orphans.on_progress(progress.callback()).stream();
        while let Some(orphan) = orphans.try_next().await? {
            found += 1;
            progress.suspend(|| {
                self.context.output.record(Record {
                    kind: "finding",
                    collection: source.name(),
                    id: Some(orphan.document_id.clone()),
                    text: "the document refers to no parent: insert the parent, or correct or delete the document"
                        .to_owned(),
                    fields: vec![
                        ("problem", json!("Orphan")),
                        ("reference", orphan.reference.as_ref().map_or(json!(null), to_json)),
                    ],
                })
            })?;
        }
        progress.end();
        Ok(found)
    }
}
