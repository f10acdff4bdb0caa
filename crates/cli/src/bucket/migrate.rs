//! Migrations between a flat collection and buckets.

use mongo_patterns_bucket::action::{MigrateFromFlat, MigrateToFlat};
use mongo_patterns_bucket::{InvalidDocuments, Migrated, MigrationPlan};
use mongo_patterns_core::Key;
use mongo_patterns_core::index::{list_indexes, serves};
use mongodb::bson::{Document, doc};
use mongodb::{Collection, IndexModel};

use super::keys::{PATTERN, flat_key};
use super::work::Work;
use crate::args::BucketMigration;
use crate::catalog;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Summary, grouped};
use crate::progress::{Progress, SharedProgress};
use crate::settings::need;

impl<K: Key> Work<'_, K> {
    pub(super) async fn plan(&self, options: &BucketMigration) -> Result<MigrationPlan, Failure> {
        let flat = self.flat()?;
        Ok(match options.back {
            true => self.migration_to_flat(options, &flat)?.plan().await?,
            false => self.migration_from_flat(options, &flat)?.plan().await?,
        })
    }

    fn migration_to_flat(
        &self,
        options: &BucketMigration,
        flat: &Collection<Document>,
    ) -> Result<MigrateToFlat<'_>, Failure> {
        let migration = self.buckets.migrate_to_flat(flat).chunk_items(options.chunk_items);
        let mut migration = migration.key_field(flat_key(self.settings)?);
        if options.allow_non_empty_target {
            migration = migration.allow_non_empty_target();
        }
        if let Some(rate) = options.rate {
            migration = migration.rate(rate);
        }
        Ok(migration)
    }

    fn migration_from_flat(
        &self,
        options: &BucketMigration,
        flat: &Collection<Document>,
    ) -> Result<MigrateFromFlat<'_>, Failure> {
        self.needs_time()?;
        let migration = self.buckets.migrate_from_flat(flat).chunk_items(options.chunk_items);
        let mut migration = migration.key_field(flat_key(self.settings)?);
        if options.allow_non_empty_target {
            migration = migration.allow_non_empty_target();
        }
        if self.settings.keep_ids == Some(true) {
            migration = migration.keep_ids();
        }
        if let Some(filter) = options.selection.filter()? {
            migration = migration.filter(filter);
        }
        if let Some(list) = options.selection.skipped(self.context) {
            migration = migration.skip_invalid(&list);
        }
        if let Some(rate) = options.rate {
            migration = migration.rate(rate);
        }
        Ok(migration)
    }

    pub(super) async fn dry_run(&self, options: &BucketMigration) -> Outcome {
        let planned = self.plan(options).await?;
        let summary = Summary::of(&self.buckets, "migrate --dry-run")
            .row("items", planned.items)
            .row("migrated_before", planned.before)
            .row("chunks_left", planned.chunks)
            .row("commands", planned.commands.len())
            .row("finished", planned.finished);
        let summary = options.selection.rows(summary, reasons(&planned.skipped));
        self.context.output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    /// Refuses a migration of several chunks without the index that they need, or creates the index.
    async fn check_index(&self, options: &BucketMigration) -> Result<(), Failure> {
        let (flat, key) = (self.flat()?, flat_key(self.settings)?);
        let indexes = list_indexes(&flat).await?;
        if options.back || options.no_index || indexes.iter().any(|index| serves(index, key)) {
            return Ok(());
        }
        let is_view = self.context.is_view(flat.name()).await?;
        if options.create_index && !is_view {
            let index = IndexModel::builder().keys(doc! { key: 1 }).build();
            flat.create_index(index).await.map_err(Failure::on(flat.namespace()))?;
            return Ok(());
        }
        let items = flat
            .estimated_document_count()
            .await
            .map_err(Failure::on(flat.namespace()))?;
        if items <= options.chunk_items.min(options.rate.unwrap_or(u64::MAX)) && !options.create_index {
            return Ok(());
        }
        let consequence = match options.rate {
            _ if is_view => {
                "by one command, which does not resume: a view can have none, so pass --no-index instead of --create-index and --rate"
            }
            Some(_) => "by one command, without the pauses of --rate: pass --create-index",
            None => "by one command, which does not resume: pass --create-index, or --no-index to migrate so",
        };
        Err(Failure::usage(format!(
            "{} has no index on `{key}`, so the server would migrate its {} items {consequence}",
            flat.namespace(),
            grouped(items)
        )))
    }

    pub(super) async fn migrate(&self, options: &BucketMigration) -> Outcome {
        options.selection.filter()?;
        self.check_index(options).await?;
        let flat = self.flat()?;
        let output = self.context.output;
        let mut progress = Progress::new(output, "migrate", "items", None);
        progress.show("the server checks all items, then migrates the first chunk");
        let on_progress = |at: mongo_patterns_core::Progress| {
            progress.set_total(at.total);
            progress.at(at.done);
        };
        let migrated = if options.back {
            self.migration_to_flat(options, &flat)?.on_progress(on_progress).await
        } else {
            self.migration_from_flat(options, &flat)?.on_progress(on_progress).await
        };
        let migrated: Migrated = migrated?;
        let summary = Summary::of(&self.buckets, "migrate")
            .row("keys", migrated.keys)
            .row("items", migrated.items)
            .row("buckets", migrated.buckets)
            .row("resumed", migrated.resumed);
        let summary = options.selection.rows(summary, reasons(&migrated.skipped));
        output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    /// Migrates a live collection to another page size.
    pub(super) async fn resize(&self, from: Option<u32>) -> Outcome {
        let collection = self.buckets.collection().name();
        let stored = catalog::settings_of(self.context, collection).await?.profile.bucket;
        let Some(from) = from.or_else(|| stored?.page_size) else {
            return Err(Failure::usage(
                "--from is missing, and the catalog has no settings of the collection: pass the old page size",
            ));
        };
        let progress = SharedProgress::new(self.context.output, "resize", "keys", None);
        progress.show("the server reads and sorts the buckets");
        let migration = self.buckets.migrate_page_size_from(from);
        let migrated = migration.on_progress(|at| progress.at(at.keys)).await?;
        progress.end();
        let summary = Summary::of(&self.buckets, "resize")
            .row("keys", migrated.keys)
            .row("buckets_written", migrated.pages);
        self.context.output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    /// Computes the figures of all buckets.
    pub(super) async fn rebuild_figures(&self) -> Outcome {
        let rebuilt = self.buckets.rebuild_figures().await?;
        let summary = Summary::of(&self.buckets, "figures").row("buckets_written", rebuilt.buckets);
        self.context.output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    fn needs_time(&self) -> Result<(), Failure> {
        need(self.settings.time.as_ref(), PATTERN, "time").map(|_| ())
    }
}

fn reasons(skipped: &InvalidDocuments) -> [(&'static str, u64); 4] {
    [
        ("key", skipped.keys),
        ("time", skipped.times),
        ("item_id", skipped.item_ids),
        ("figure", skipped.figures),
    ]
}
