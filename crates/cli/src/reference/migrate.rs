//! Migrations from ids of sources to references with copies, and back.

use mongo_patterns_reference::MigrationPlan;
use mongo_patterns_reference::action::{MigrateFromReferences, MigrateToReferences};

use super::Work;
use crate::args::ReferenceMigration;
use crate::failure::{Exit, Failure, Outcome};
use crate::nested::references::in_other_fields;
use crate::output::Summary;
use crate::progress::SharedProgress;

impl Work<'_> {
    pub(super) async fn plan(&self, options: &ReferenceMigration) -> Result<MigrationPlan, Failure> {
        Ok(match options.back {
            true => self.migration_back(options)?.plan().await?,
            false => self.migration(options)?.plan().await?,
        })
    }

    pub(super) async fn dry_run(&self, options: &ReferenceMigration) -> Outcome {
        let planned = self.plan(options).await?;
        let summary = Summary::of(&self.documents, "migrate --dry-run").row("documents", planned.documents);
        let summary = options.selection.rows(summary, planned.skipped.by_reason());
        let writes = planned.commands.iter().filter(|planned| planned.writes);
        let summary = summary
            .row("commands", planned.commands.len())
            .row("commands_that_write", writes.count());
        self.context.output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    pub(super) async fn migrate(&self, options: &ReferenceMigration) -> Outcome {
        let output = self.context.output;
        let progress = SharedProgress::new(output, "migrate", "documents", None);
        progress.show("the server checks all documents, then migrates the first chunk");
        let summary = Summary::of(&self.documents, "migrate");
        let summary = match options.back {
            true => {
                let migrated = self.migration_back(options)?.on_progress(progress.callback()).await?;
                summary
                    .row("documents", migrated.documents)
                    .row("resumed", migrated.resumed)
            }
            false => {
                let migrated = self.migration(options)?.on_progress(progress.callback()).await?;
                let summary = summary
                    .row("documents", migrated.documents)
                    .row("resumed", migrated.resumed)
                    .row("indexes_created", migrated.created_indexes.len());
                options.selection.rows(summary, migrated.skipped.by_reason())
            }
        };
        progress.end();
        output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    fn migration(&self, options: &ReferenceMigration) -> Result<MigrateFromReferences<'_>, Failure> {
        let migration = self.documents.migrate_from_references();
        let mut migration = migration.chunk_documents(options.chunk_documents);
        for (reference, field) in in_other_fields("--from-field", options.from_field.as_ref(), &self.references)? {
            migration = migration.from_field(reference, field);
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

    fn migration_back(&self, options: &ReferenceMigration) -> Result<MigrateToReferences<'_>, Failure> {
        let migration = self.documents.migrate_to_references();
        let mut migration = migration.chunk_documents(options.chunk_documents);
        for (reference, field) in in_other_fields("--to-field", options.to_field.as_ref(), &self.references)? {
            migration = migration.to_field(reference, field);
        }
        if let Some(rate) = options.rate {
            migration = migration.rate(rate);
        }
        if options.drop_deleted {
            migration = migration.drop_deleted();
        }
        if options.drop_snapshots {
            migration = migration.drop_snapshots();
        }
        Ok(migration)
    }
}
