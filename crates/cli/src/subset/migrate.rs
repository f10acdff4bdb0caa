//! Migrations to the pattern, and from one order, set of embedded fields or size to another.

use mongo_patterns_core::migration::Migration;

use super::{Parents, Work, repository};
use crate::args::{SubsetForm, SubsetMigration};
use crate::failure::{Failure, Outcome};
use crate::migrate::{Migrate, Mode};
use crate::settings::SubsetSettings;

/// The value of `--old-embed` for all fields but `_id` and the parent's.
const ALL_FIELDS: &str = "*";
/// The value of `--old-add-subset` for a parent with one subset.
const NO_SUBSETS: &str = "none";

impl Work<'_> {
    pub(super) async fn migrate(&self, options: &SubsetMigration, mode: Mode) -> Outcome {
        check(options)?;
        let migrate = Migrate {
            selection: Some(&options.selection),
            ..Migrate::new(
                self.context,
                &self.parents,
                mode,
                match options.from {
                    SubsetForm::Embedded => "children",
                    SubsetForm::Collection | SubsetForm::Settings => "parents",
                },
            )
        };
        match options.from {
            SubsetForm::Embedded => {
                let mut migration = self.parents.migrate_from_embedded();
                if options.allow_non_empty_target {
                    migration = migration.allow_non_empty_target();
                }
                migration.options().chunk = options.chunk;
                migrate.execute(migration).await
            }
            SubsetForm::Collection => {
                let mut migration = self.parents.migrate_existing();
                if options.discard_embedded {
                    migration = migration.discard_embedded();
                }
                migration.options().chunk = options.chunk;
                migrate.execute(migration).await
            }
            SubsetForm::Settings => {
                let old = self.old(options)?;
                let mut migration = self.parents.migrate_layout_from(&old);
                migration.options().chunk = options.chunk;
                migrate.execute(migration).await
            }
        }
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
            options.selection.is_given(),
            "--where and --skip-invalid",
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
