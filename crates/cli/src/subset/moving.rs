//! Moves into the form of the pattern, and from one order or size to another.

use mongo_patterns_core::{Error, ErrorKind};
use mongo_patterns_subset::MigrationPlan;

use super::{Parents, Work, repository};
use crate::args::{SubsetForm, SubsetMove};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Summary;
use crate::progress::SharedProgress;
use crate::settings::SubsetSettings;

/// As `--old-embed`: all fields but `_id` and the parent's.
const ALL_FIELDS: &str = "*";

impl Work<'_> {
    pub(super) async fn plan(&self, options: &SubsetMove) -> Result<MigrationPlan, Failure> {
        check(options)?;
        let planned = match options.from {
            SubsetForm::Embedded => {
                let mut moving = self.parents.migrate_from_embedded();
                moving = moving.chunk_children(options.chunk_children());
                if options.allow_non_empty_target {
                    moving = moving.allow_non_empty_target();
                }
                moving.plan().await
            }
            SubsetForm::Collection => {
                let mut adopting = self.parents.migrate_existing();
                if options.discard_embedded {
                    adopting = adopting.discard_embedded();
                }
                adopting.plan().await
            }
            SubsetForm::Settings => self.parents.migrate_layout_from(&self.old(options)?).plan().await,
        };
        planned.map_err(failed)
    }

    pub(super) async fn dry_run(&self, options: &SubsetMove) -> Outcome {
        let planned = self.plan(options).await?;
        let mut summary = Summary::new("subset migrate --dry-run", self.namespace()).row("parents", planned.parents);
        if options.from == SubsetForm::Embedded {
            summary = summary.row("children", planned.children);
        }
        let writes = planned.commands.iter().filter(|planned| planned.writes);
        let summary = summary
            .row("commands", planned.commands.len())
            .row("commands_that_write", writes.count());
        self.context.output.summary(&summary, Exit::Well)?;
        Ok(Exit::Well)
    }

    pub(super) async fn migrate(&self, options: &SubsetMove) -> Outcome {
        check(options)?;
        let output = self.context.output;
        let unit = match options.from {
            SubsetForm::Embedded => "children",
            SubsetForm::Collection | SubsetForm::Settings => "parents",
        };
        let progress = SharedProgress::new(output, "migrate", unit, None);
        progress.say("checks before anything is written");
        let summary = Summary::new("subset migrate", self.namespace());
        let (summary, orphans) = match options.from {
            SubsetForm::Embedded => {
                let mut moving = self.parents.migrate_from_embedded().on_progress(progress.told());
                moving = moving.chunk_children(options.chunk_children());
                if options.allow_non_empty_target {
                    moving = moving.allow_non_empty_target();
                }
                let moved = moving.await.map_err(failed)?;
                let summary = summary
                    .row("parents", moved.parents)
                    .row("children", moved.children)
                    .row("resumed", moved.resumed);
                (summary, 0)
            }
            SubsetForm::Collection => {
                let mut adopting = self.parents.migrate_existing().on_progress(progress.told());
                if options.discard_embedded {
                    adopting = adopting.discard_embedded();
                }
                let adopted = adopting.await.map_err(failed)?;
                let summary = summary
                    .row("parents", adopted.parents)
                    .row("written_by_others_meanwhile", adopted.rebuilt_individually)
                    .row("indexes_created", adopted.created_indexes.len())
                    .row("orphans", adopted.orphans);
                (summary, adopted.orphans)
            }
            SubsetForm::Settings => {
                let old = self.old(options)?;
                let changing = self.parents.migrate_layout_from(&old).on_progress(progress.told());
                let changed = changing.await.map_err(failed)?;
                let summary = summary
                    .row("parents", changed.parents)
                    .row("written_by_others_meanwhile", changed.rebuilt_individually)
                    .row("indexes_created", changed.created_indexes.len())
                    .row("indexes_dropped", u64::from(changed.dropped_index.is_some()));
                (summary, 0)
            }
        };
        progress.end();
        let exit = Exit::of_findings(orphans);
        output.summary(&summary, exit)?;
        if orphans > 0 {
            output.text("`subset verify` lists the parents that the orphans name and that do not exist")?;
        }
        Ok(exit)
    }

    /// The repository with the settings of before.
    fn old(&self, options: &SubsetMove) -> Result<Parents, Failure> {
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
        repository(self.context, &settings)
    }
}

/// Options that belong to another form would have no effect.
fn check(options: &SubsetMove) -> Result<(), Failure> {
    let has_old = options.old_order.is_some() || options.old_size.is_some() || options.old_embed.is_some();
    let is = |form: SubsetForm| options.from == form;
    let misplaced = [
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
        (options.discard_embedded, "--discard-embedded", SubsetForm::Collection),
        (has_old, "--old-order, --old-size and --old-embed", SubsetForm::Settings),
    ];
    for (is_set, option, form) in misplaced {
        if is_set && !is(form) {
            return Err(Failure::usage(format!("{option} go with --from {}", form.name())));
        }
    }
    if is(SubsetForm::Settings) && !has_old {
        return Err(Failure::usage(
            "--from settings needs what was before: pass --old-order, --old-size or --old-embed",
        ));
    }
    Ok(())
}

/// With what to do in words of the command line.
fn failed(error: Error) -> Failure {
    let advice = match error.kind() {
        ErrorKind::TargetNotEmpty => Some("allow_non_empty_target() is the option --allow-non-empty-target"),
        ErrorKind::NotMigrated => Some(
            "migrate_from_embedded() is `subset migrate --from embedded`, and discard_embedded() the option --discard-embedded of `subset migrate --from collection`",
        ),
        _ => None,
    };
    let failure = Failure::from(error);
    match advice {
        Some(advice) => failure.advise(advice),
        None => failure,
    }
}
