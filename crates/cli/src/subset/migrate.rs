//! Migrations to the pattern, and from one order, set of embedded fields or size to another.

use mongo_patterns_subset::MigrationPlan;
use mongo_patterns_subset::action::MigrateFromEmbedded;

use super::{Parents, Work, repository};
use crate::args::{SubsetForm, SubsetMigration};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Summary;
use crate::progress::SharedProgress;
use crate::settings::SubsetSettings;

/// The value of `--old-embed` for all fields but `_id` and the parent's.
const ALL_FIELDS: &str = "*";
/// The value of `--old-add-subset` for a parent with one subset.
const NO_SUBSETS: &str = "none";

impl Work<'_> {
    pub(super) async fn plan(&self, options: &SubsetMigration) -> Result<MigrationPlan, Failure> {
        check(options)?;
        Ok(match options.from {
            SubsetForm::Embedded => self.embedded_migration(options)?.plan().await?,
            SubsetForm::Collection => {
                let mut migration = self.parents.migrate_existing();
                if options.discard_embedded {
                    migration = migration.discard_embedded();
                }
                migration.plan().await?
            }
            SubsetForm::Settings => self.parents.migrate_layout_from(&self.old(options)?).plan().await?,
        })
    }

    pub(super) async fn dry_run(&self, options: &SubsetMigration) -> Outcome {
        let planned = self.plan(options).await?;
        let mut summary = Summary::of(&self.parents, "migrate --dry-run").row("parents", planned.parents);
        if options.from == SubsetForm::Embedded {
            summary = summary.row("children", planned.children);
            summary = options.selection.rows(summary, planned.skipped.by_reason());
        }
        let writes = planned.commands.iter().filter(|planned| planned.writes);
        let summary = summary
            .row("commands", planned.commands.len())
            .row("commands_that_write", writes.count());
        self.context.output.summary(&summary, Exit::Success)?;
        Ok(Exit::Success)
    }

    pub(super) async fn migrate(&self, options: &SubsetMigration) -> Outcome {
        check(options)?;
        let output = self.context.output;
        let unit = match options.from {
            SubsetForm::Embedded => "children",
            SubsetForm::Collection | SubsetForm::Settings => "parents",
        };
        let progress = SharedProgress::new(output, "migrate", unit, None);
        progress.show("the server checks all documents, then migrates the first chunk");
        let summary = Summary::of(&self.parents, "migrate");
        let mut is_unchanged = false;
        let (summary, orphans) = match options.from {
            SubsetForm::Embedded => {
                let migration = self.embedded_migration(options)?.on_progress(progress.callback());
                let migrated = migration.await?;
                let summary = summary
                    .row("parents", migrated.parents)
                    .row("children", migrated.children)
                    .row("resumed", migrated.resumed);
                is_unchanged = migrated.parents == 0 && !migrated.resumed;
                (options.selection.rows(summary, migrated.skipped.by_reason()), 0)
            }
            SubsetForm::Collection => {
                let mut migration = self.parents.migrate_existing().on_progress(progress.callback());
                if options.discard_embedded {
                    migration = migration.discard_embedded();
                }
                let migrated = migration.await?;
                let summary = summary
                    .row("parents", migrated.parents)
                    .row("written_concurrently", migrated.rebuilt_individually)
                    .row("indexes_created", migrated.created_indexes.len())
                    .row("orphans", migrated.orphans);
                (summary, migrated.orphans)
            }
            SubsetForm::Settings => {
                let old = self.old(options)?;
                let migration = self.parents.migrate_layout_from(&old).on_progress(progress.callback());
                let migrated = migration.await?;
                let summary = summary
                    .row("parents", migrated.parents)
                    .row("written_concurrently", migrated.rebuilt_individually)
                    .row("indexes_created", migrated.created_indexes.len())
                    .row("indexes_dropped", u64::from(migrated.dropped_index.is_some()));
                (summary, 0)
            }
        };
        progress.end();
        let exit = Exit::of_findings(orphans);
        output.summary(&summary, exit)?;
        if is_unchanged {
            output.text(
                "nothing to migrate: the embedded children of all parents, but those skipped, are stored already",
            )?;
        }
        if orphans > 0 {
            output.text("`subset verify` lists the missing parents of the orphans")?;
        }
        Ok(exit)
    }

    fn embedded_migration(&self, options: &SubsetMigration) -> Result<MigrateFromEmbedded<'_>, Failure> {
        let migration = self.parents.migrate_from_embedded();
        let mut migration = migration.chunk_children(options.chunk_children());
        if options.allow_non_empty_target {
            migration = migration.allow_non_empty_target();
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

    /// Returns the repository with the old settings.
    fn old(&self, options: &SubsetMigration) -> Result<Parents, Failure> {
        let mut settings: SubsetSettings = self.settings.clone();
        if let Some(order) = &options.old_order {
            settings.order = Some(order.clone());
        }
        settings.size = options.old_size.or(settings.size);
        match &options.old_embed {
            Some(fields) if *fields == [ALL_FIELDS] => settings.embed = None,
            Some(fields) => settings.embed = Some(fields.clone()),
            None => {}
        }
        match &options.old_add_subset {
            Some(subsets) if *subsets == [NO_SUBSETS] => settings.add_subset = None,
            Some(subsets) => settings.add_subset = Some(subsets.clone()),
            None => {}
        }
        if options.old_without_totals {
            settings.total = None;
            for computed in [
                &mut settings.sum,
                &mut settings.min,
                &mut settings.max,
                &mut settings.count_by,
            ] {
                *computed = None;
            }
        }
        repository(self.context, &settings)
    }
}

/// Refuses options that have no effect with the given form.
fn check(options: &SubsetMigration) -> Result<(), Failure> {
    let has_old = options.old_order.is_some()
        || options.old_size.is_some()
        || options.old_embed.is_some()
        || options.old_add_subset.is_some()
        || options.old_without_totals;
    let is = |form: SubsetForm| options.from == form;
    let restricted = [
        (
            options.allow_non_empty_target,
            "--allow-non-empty-target",
            SubsetForm::Embedded,
        ),
        (
            options.chunk_children.is_some(),
            "--chunk-children",
            SubsetForm::Embedded,
        ),
        (
            options.rate.is_some() || options.selection.is_given(),
            "--where, --skip-invalid and --rate",
            SubsetForm::Embedded,
        ),
        (options.discard_embedded, "--discard-embedded", SubsetForm::Collection),
        (
            has_old,
            "--old-order, --old-size, --old-embed, --old-add-subset and --old-without-totals",
            SubsetForm::Settings,
        ),
    ];
    for (is_set, option, form) in restricted {
        if is_set && !is(form) {
            return Err(Failure::usage(format!("{option}: only with --from {}", form.name())));
        }
    }
    if is(SubsetForm::Settings) && !has_old {
        return Err(Failure::usage(
            "--from settings needs the old settings: pass --old-order, --old-size, --old-embed, --old-add-subset or --old-without-totals",
        ));
    }
    Ok(())
}
