//! The migration of existing documents into the form of the repository.
//!
//! # Design
//!
//! ## Why is the plan a stream?
//!
//! Its commands contain the elements. A stream holds one list at a time.

use futures::future::ready;
use futures::stream::{iter, once};
use mongo_patterns_core::PlannedCommand;

use crate::repair::check::Summary;
use crate::repair::check_settings::check_migration;
use crate::repair::fix::Fix;
use crate::repair::rewrite::{self, dry_run, rewrite};
use crate::repair::scan::{names, summaries, summaries_with_progress, until_error};
use crate::repository::prelude::*;
use crate::results::MigratedExisting;

/// A stream of commands; returned by [`MigrateExisting::plan`](crate::action::MigrateExisting::plan).
pub type CommandStream<'a> = Pin<Box<dyn Stream<Item = Result<PlannedCommand>> + Send + 'a>>;

/// Rewrites all lists that are not laid out by the settings.
///
/// # Errors
/// At the end, the error of the first list that could not be rewritten.
pub(crate) async fn run(
    shared: &Shared,
    dry_run: bool,
    concurrency: usize,
    on_progress: Option<OnProgress<'_>>,
) -> Result<MigratedExisting> {
    let fixes = summaries_with_progress(shared, on_progress)
        .try_filter(move |summary| ready(!summary.is_laid_out(&shared.settings)))
        .map_ok(move |summary| migrate(shared, summary, dry_run))
        .try_buffer_unordered(concurrency.max(1));
    let mut fixes = until_error(fixes);
    let mut migrated = MigratedExisting::default();
    let mut first_refused = None;
    while let Some((id, fix)) = fixes.try_next().await? {
        match fix.unrepaired {
            Some(unrepaired) if fix.found => {
                first_refused.get_or_insert_with(|| fix.refused(unrepaired, &id));
            }
            _ if fix.is_empty() => {}
            _ => {
                migrated.documents += 1;
                migrated.overflow_documents += fix.changes.written.len() as u64;
            }
        }
    }
    first_refused.map_or(Ok(migrated), Err)
}

async fn migrate(shared: &Shared, summary: Summary, is_dry: bool) -> Result<(Bson, Fix)> {
    let fix = match is_dry {
        true => dry_run(shared, &summary.id, false).await?,
        false => rewrite(shared, &summary.id, false, None).await?,
    };
    Ok((summary.id, fix))
}

/// Lists the commands of a run, one list after another.
pub(crate) fn plan(shared: &Shared) -> CommandStream<'_> {
    let scan = doc! {
        "aggregate": shared.main.name(),
        "pipeline": query::summaries(&shared.settings, names(shared), None),
        "cursor": {},
        "allowDiskUse": true,
    };
    let scan = PlannedCommand::read("look for lists that are laid out by other settings", scan);
    let rewrites = summaries(shared)
        .try_filter(move |summary| ready(!summary.is_laid_out(&shared.settings)))
        .and_then(move |summary| async move { rewrite::plan(shared, &summary.id).await })
        .map_ok(|commands| iter(commands.into_iter().map(Ok)))
        .try_flatten();
    let check = async move {
        let mut steps = Steps::plan();
        check_migration(shared, &mut steps, false, false).await?;
        Ok::<_, Error>(iter(steps.into_commands().into_iter().map(Ok)))
    };
    let checked = once(check).try_flatten().chain(once(ready(Ok(scan))));
    Box::pin(until_error(checked.chain(rewrites)))
}
