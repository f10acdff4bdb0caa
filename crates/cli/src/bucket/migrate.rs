//! Migrations between a flat collection and buckets.

use mongo_patterns_core::Key;
use mongo_patterns_core::index::{list_indexes, serves};
use mongo_patterns_core::migration::Migration;
use mongodb::IndexModel;
use mongodb::bson::doc;

use super::keys::{PATTERN, flat_key};
use super::work::Work;
use crate::args::BucketMigration;
use crate::catalog;
use crate::failure::{Exit, Failure, Outcome};
use crate::migrate::{COMMANDS, Migrate, Mode};
use crate::output::{Summary, grouped};
use crate::settings::need;

impl<K: Key> Work<'_, K> {
    pub(super) async fn migrate(&self, options: &BucketMigration, mode: Mode) -> Outcome {
        // Before an index is created.
        options.selection.filter()?;
        if !options.back {
            need(self.settings.time.as_ref(), PATTERN, "time")?;
        }
        if mode == Mode::Run {
            self.check_index(options).await?;
        }
        let flat = self.flat()?;
        let key = flat_key(self.settings)?;
        let migrate = Migrate {
            selection: Some(&options.selection),
            filtered: Some((flat.clone(), options.selection.filter()?)),
            ..Migrate::new(self.context, &self.buckets, mode, "items")
        };
        if options.back {
            let mut migration = self.buckets.migrate_to_flat(&flat).chunk(options.chunk).key_field(key);
            if options.allow_non_empty_target {
                migration = migration.allow_non_empty_target();
            }
            return migrate.execute(migration).await;
        }
        let keeps_ids = self.settings.keep_ids == Some(true) || self.settings.item_id.as_deref() == Some("_id");
        if !keeps_ids {
            let warning = "warning: the items do not keep the `_id`s of their documents, so `migrate --back` stores new ones: pass --keep-ids to keep them";
            self.context.output.notice(warning);
        }
        let mut migration = self
            .buckets
            .migrate_from_flat(&flat)
            .chunk(options.chunk)
            .key_field(key);
        if options.allow_non_empty_target {
            migration = migration.allow_non_empty_target();
        }
        if self.settings.keep_ids == Some(true) {
            migration = migration.keep_ids();
        }
        if let Some(format) = self.settings.time_format {
            migration = migration.time_format(format.into());
        }
        migrate.execute(migration).await
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
        if items <= options.chunk.min(options.selection.rate.unwrap_or(u64::MAX)) && !options.create_index {
            return Ok(());
        }
        let consequence = match options.selection.rate {
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

    /// Migrates a live collection to another page size from that of the catalog.
    pub(super) async fn resize(&self, from: Option<u32>, rate: Option<u64>, mode: Mode) -> Outcome {
        let stored = catalog::stored(self.context, self.settings).await?;
        let Some(from) = from.or_else(|| stored?.page_size) else {
            return Err(Failure::usage(
                "--from is missing, and the catalog has no settings of the collection: pass the old page size",
            ));
        };
        let migrate = Migrate {
            verb: "resize",
            omits: &["items", COMMANDS[0], COMMANDS[1]],
            ..Migrate::new(self.context, &self.buckets, mode, "buckets")
        };
        let mut migration = self.buckets.migrate_page_size_from(from);
        migration.options().rate = rate;
        migrate.execute(migration).await
    }

    /// Computes the figures of all buckets.
    pub(super) async fn refresh_figures(&self) -> Outcome {
        let refreshed = self.buckets.refresh_figures().await?;
        let summary = Summary::of(&self.buckets, "refresh-figures").row("documents", refreshed.documents);
        self.context.output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }
}
