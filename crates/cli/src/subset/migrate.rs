//! Migrations to the pattern, and from one order, set of embedded fields or size to another.

use mongo_patterns_core::migration::Migration;

use super::{Parents, Work, repository};
use crate::args::{SubsetForm, SubsetMigration};
use crate::catalog;
use crate::failure::{Failure, Outcome};
use crate::migrate::{Migrate, Mode};
use crate::settings::SubsetSettings;

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
                let old = self.old(options).await?;
                let mut migration = self.parents.migrate_layout_from(&old);
                migration.options().chunk = options.chunk;
                migrate.execute(migration).await
            }
        }
    }

    /// Returns the repository with the old settings, which are those of the catalog. A migration replaces them first, so
    /// one that resumes does not know the old order, whose index it drops.
    async fn old(&self, options: &SubsetMigration) -> Result<Parents, Failure> {
        let mut old = match catalog::stored(self.context, self.settings).await? {
            Some(stored) if options.old_order.is_none() && stored == with_whole_order(self.settings.clone()) => {
                return Err(Failure::usage(
                    "--from settings: the settings are those of the catalog already: pass the new ones, or --old-order if a migration to another order was interrupted; `repair` refreshes what writers with old settings have stored since",
                ));
            }
            Some(stored) => stored,
            // The library refuses it.
            None => self.settings.clone(),
        };
        if options.old_order.is_some() {
            old.order.clone_from(&options.old_order);
        }
        repository(self.context, &old)
    }
}

/// Completes the order as the catalog has it: it ends with the id of the child, in the direction of the last field.
fn with_whole_order(mut settings: SubsetSettings) -> SubsetSettings {
    if let (Some(order), Some(id)) = (&mut settings.order, &settings.child_id)
        && !order.iter().any(|field| field.trim_start_matches('-') == id)
    {
        let is_descending = order.last().is_some_and(|field| field.starts_with('-'));
        order.push(if is_descending { format!("-{id}") } else { id.clone() });
    }
    settings
}

/// Refuses options that have no effect with the given form.
fn check(options: &SubsetMigration) -> Result<(), Failure> {
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
        (options.old_order.is_some(), "--old-order", SubsetForm::Settings),
    ];
    for (is_set, option, form) in restricted {
        if is_set && options.from != form {
            return Err(Failure::usage(format!("{option}: only with --from {}", form.name())));
        }
    }
    Ok(())
}
