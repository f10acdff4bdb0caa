//! Migrations between a flat collection and buckets.

use mongo_patterns_bucket::{Migrated, MigrationPlan, MigrationProgress};
use mongo_patterns_core::{Error, Key};

use super::{Work, flat_key};
use crate::args::BucketMigration;
use crate::failure::{Exit, Failure, Outcome};
use crate::load::FromText;
use crate::output::Summary;
use crate::progress::Progress;

impl<K: Key + FromText> Work<'_, K> {
    pub(super) async fn plan(&self, options: &BucketMigration) -> Result<MigrationPlan, Failure> {
        let flat = self.flat()?;
        let planned = if options.back {
            let mut migration = self.buckets.migrate_to_flat(&flat).chunk_items(options.chunk_items);
            migration = migration.key_field(flat_key(self.settings)?);
            if options.allow_non_empty_target {
                migration = migration.allow_non_empty_target();
            }
            migration.plan().await
        } else {
            self.needs_time()?;
            let mut migration = self.buckets.migrate_from_flat(&flat).chunk_items(options.chunk_items);
            migration = migration.key_field(flat_key(self.settings)?);
            if options.allow_non_empty_target {
                migration = migration.allow_non_empty_target();
            }
            if self.settings.keep_ids == Some(true) {
                migration = migration.keep_ids();
            }
            migration.plan().await
        };
        planned.map_err(|error| self.at_source(error, options))
    }

    pub(super) async fn dry_run(&self, options: &BucketMigration) -> Outcome {
        let planned = self.plan(options).await?;
        let summary = Summary::new("bucket migrate --dry-run", self.namespace())
            .row("items", planned.items)
            .row("migrated_before", planned.before)
            .row("chunks_left", planned.chunks)
            .row("commands", planned.commands.len())
            .row("finished", planned.finished);
        self.context.output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    pub(super) async fn migrate(&self, options: &BucketMigration) -> Outcome {
        let flat = self.flat()?;
        let output = self.context.output;
        let mut progress = Progress::new(output, "migrate", "items", None);
        progress.show("checking before the first write");
        let on_progress = |at: MigrationProgress| {
            progress.set_total(at.total);
            progress.at(at.done);
        };
        let migrated = if options.back {
            let mut migration = self.buckets.migrate_to_flat(&flat).chunk_items(options.chunk_items);
            migration = migration.key_field(flat_key(self.settings)?);
            if options.allow_non_empty_target {
                migration = migration.allow_non_empty_target();
            }
            migration.on_progress(on_progress).await
        } else {
            self.needs_time()?;
            let mut migration = self.buckets.migrate_from_flat(&flat).chunk_items(options.chunk_items);
            migration = migration.key_field(flat_key(self.settings)?);
            if options.allow_non_empty_target {
                migration = migration.allow_non_empty_target();
            }
            if self.settings.keep_ids == Some(true) {
                migration = migration.keep_ids();
            }
            migration.on_progress(on_progress).await
        };
        let migrated: Migrated = migrated.map_err(|error| self.at_source(error, options))?;
        let summary = Summary::new("bucket migrate", self.namespace())
            .row("keys", migrated.keys)
            .row("items", migrated.items)
            .row("buckets", migrated.buckets)
            .row("resumed", migrated.resumed);
        output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    fn needs_time(&self) -> Result<(), Failure> {
        crate::settings::need(self.settings.time.as_ref(), super::PATTERN, "time").map(|_| ())
    }

    /// The document at fault is in the source.
    fn at_source(&self, error: Error, options: &BucketMigration) -> Failure {
        let mut failure = Failure::from(error);
        if let (Some(document), false, Some(flat)) = (&mut failure.document, options.back, &self.settings.flat) {
            document.collection.clone_from(flat);
        }
        failure
    }
}
