//! Moves between a flat collection and buckets.

use mongo_patterns_bucket::{Migrated, MigrationPlan};
use mongo_patterns_core::{Error, Key};

use super::{Work, flat_key};
use crate::args::BucketMove;
use crate::failure::{Exit, Failure, Outcome};
use crate::load::FromText;
use crate::output::Summary;
use crate::progress::Progress;

impl<K: Key + FromText> Work<'_, K> {
    pub(super) async fn plan(&self, options: &BucketMove) -> Result<MigrationPlan, Failure> {
        let flat = self.flat()?;
        let planned = if options.back {
            let mut moving = self.buckets.migrate_to_flat(&flat).chunk_items(options.chunk_items);
            moving = moving.key_field(flat_key(self.settings)?);
            if options.allow_non_empty_target {
                moving = moving.allow_non_empty_target();
            }
            moving.plan().await
        } else {
            self.needs_time()?;
            let mut moving = self.buckets.migrate_from_flat(&flat).chunk_items(options.chunk_items);
            moving = moving.key_field(flat_key(self.settings)?);
            if options.allow_non_empty_target {
                moving = moving.allow_non_empty_target();
            }
            if self.settings.keep_ids == Some(true) {
                moving = moving.keep_ids();
            }
            moving.plan().await
        };
        planned.map_err(|error| self.at_source(error, options))
    }

    pub(super) async fn dry_run(&self, options: &BucketMove) -> Outcome {
        let planned = self.plan(options).await?;
        let summary = Summary::new("bucket migrate --dry-run", self.namespace())
            .row("items", planned.items)
            .row("moved_before", planned.before)
            .row("chunks_left", planned.chunks)
            .row("commands", planned.commands.len())
            .row("finished", planned.finished);
        self.context.output.summary(&summary, Exit::Well)?;
        Ok(Exit::Well)
    }

    pub(super) async fn migrate(&self, options: &BucketMove) -> Outcome {
        let flat = self.flat()?;
        let output = self.context.output;
        let mut progress = Progress::new(output, "migrate", "items", None);
        progress.say("checks before anything is written");
        let on_progress = |at: mongo_patterns_core::Progress| {
            progress.set_total(at.total);
            progress.at(at.done);
        };
        let moved = if options.back {
            let mut moving = self.buckets.migrate_to_flat(&flat).chunk_items(options.chunk_items);
            moving = moving.key_field(flat_key(self.settings)?);
            if options.allow_non_empty_target {
                moving = moving.allow_non_empty_target();
            }
            moving.on_progress(on_progress).await
        } else {
            self.needs_time()?;
            let mut moving = self.buckets.migrate_from_flat(&flat).chunk_items(options.chunk_items);
            moving = moving.key_field(flat_key(self.settings)?);
            if options.allow_non_empty_target {
                moving = moving.allow_non_empty_target();
            }
            if self.settings.keep_ids == Some(true) {
                moving = moving.keep_ids();
            }
            moving.on_progress(on_progress).await
        };
        let moved: Migrated = moved.map_err(|error| self.at_source(error, options))?;
        let summary = Summary::new("bucket migrate", self.namespace())
            .row("keys", moved.keys)
            .row("items", moved.items)
            .row("buckets", moved.buckets)
            .row("resumed", moved.resumed);
        output.summary(&summary, Exit::Well)?;
        Ok(Exit::Well)
    }

    fn needs_time(&self) -> Result<(), Failure> {
        crate::settings::need(self.settings.time.as_ref(), super::PATTERN, "time").map(|_| ())
    }

    /// The document at fault is one of the source.
    fn at_source(&self, error: Error, options: &BucketMove) -> Failure {
        let mut failure = Failure::from(error);
        if let (Some(document), false, Some(flat)) = (&mut failure.document, options.back, &self.settings.flat) {
            document.collection.clone_from(flat);
        }
        failure
    }
}
