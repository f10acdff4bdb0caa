//! The migration of existing documents into the form of the repository.
//!
//! # Design
//!
//! ## Why is the plan a stream?
//!
//! Its commands contain the elements. A stream holds one list at a time.

use futures::future::ready;
use futures::stream::{iter, once, try_unfold};
use mongo_patterns_core::PlannedCommand;
use mongo_patterns_core::error::Remedy;
use mongo_patterns_core::migration::{Pace, SkipList, both, check_filter, check_rate};
use mongodb::bson::oid::ObjectId;

use crate::repair::check::Summary;
use crate::repair::check_settings::check_migration;
use crate::repair::finding::Unrepaired;
use crate::repair::fix::Fix;
use crate::repair::rewrite::{self, dry_run, rewrite};
use crate::repair::scan::{names, summaries, summaries_with_progress, until_error};
use crate::repository::prelude::*;
use crate::results::{InvalidLists, MigratedExisting};

/// A stream of commands; returned by [`MigrateExisting::plan`](crate::action::MigrateExisting::plan).
pub type CommandStream<'a> = Pin<Box<dyn Stream<Item = Result<PlannedCommand>> + Send + 'a>>;

/// The options of a run.
pub(crate) struct Options<'a> {
    pub(crate) dry_run: bool,
    pub(crate) concurrency: usize,
    /// The most documents per second.
    pub(crate) rate: Option<u64>,
    /// The filter of the main documents; empty for all.
    pub(crate) filter: Document,
    /// The collection that lists invalid lists, which are skipped then.
    pub(crate) skipped: Option<&'a Collection<RawDocumentBuf>>,
}

/// Checks the options.
pub(crate) async fn check_options(shared: &Shared, options: &Options<'_>) -> Result<()> {
    check_rate(options.rate)?;
    if !options.filter.is_empty() {
        check_filter(&mut Steps::run(), &shared.main, &options.filter).await?;
    }
    if let Some(list) = skip_list(shared, options) {
        list.check_settings()?;
        list.check(&mut Steps::run()).await?;
    }
    Ok(())
}

/// Rewrites all lists that are not laid out by the settings.
///
/// # Errors
/// At the end, the error of the first list that could not be rewritten.
pub(crate) async fn run(
    shared: &Shared,
    options: &Options<'_>,
    on_progress: Option<OnProgress<'_>>,
) -> Result<MigratedExisting> {
    let dry_run = options.dry_run;
    let summaries = summaries_with_progress(shared, Reporter::new(on_progress))
        .try_filter(move |summary| ready(!summary.is_laid_out(&shared.settings)));
    let fixes = paced(summaries, options.rate)
        .map_ok(move |summary| migrate(shared, summary, options))
        .try_buffer_unordered(options.concurrency.max(1));
    let mut fixes = until_error(fixes);
    let list = skip_list(shared, options);
    let call = ObjectId::new();
    let mut migrated = MigratedExisting::default();
    let mut first_refused = None;
    while let Some((id, fix)) = fixes.try_next().await? {
        match fix.unrepaired {
            Some(unrepaired) if fix.found => {
                let reason = list.as_ref().and_then(|_| count(&mut migrated.skipped, &unrepaired));
                match (reason, &list) {
                    (Some(reason), Some(list)) if !dry_run => list.add(call, &id, reason).await?,
                    (Some(_), _) => {}
                    (None, _) => drop(first_refused.get_or_insert_with(|| {
                        let refused = fix.refused(unrepaired, shared, &id);
                        refused.with_remedy(Remedy::SkipInvalid)
                    })),
                }
            }
            _ if fix.is_empty() => {}
            _ => {
                migrated.documents += 1;
                if !dry_run {
                    measure::migrated(1);
                }
                migrated.overflow_documents += fix.changes.written.len() as u64;
            }
        }
    }
    if let Some(list) = list.filter(|_| !dry_run) {
        list.remove_others(&mut Steps::run(), call).await?;
    }
    first_refused.map_or(Ok(migrated), Err)
}

/// Counts a list. Returns the reason, or `None` where it is not the list that is invalid.
fn count(skipped: &mut InvalidLists, unrepaired: &Unrepaired) -> Option<&'static str> {
    let (number, reason) = match unrepaired {
        Unrepaired::ArrayNotArray => (&mut skipped.no_array, "no_array"),
        Unrepaired::ElementsNotArray => (&mut skipped.no_elements, "no_elements"),
        Unrepaired::OwnFields => (&mut skipped.own_fields, "own_fields"),
        Unrepaired::TooLarge => (&mut skipped.too_large, "too_large"),
        Unrepaired::Orphaned => return None,
    };
    *number += 1;
    Some(reason)
}

fn skip_list<'a>(shared: &'a Shared, options: &Options<'a>) -> Option<SkipList<'a>> {
    let (source, target) = (&shared.main, &shared.overflow);
    options.skipped.map(|list| SkipList { source, target, list })
}

/// Pauses before each item, if there is a rate.
fn paced<'a, T: Send + 'a>(
    stream: impl Stream<Item = Result<T>> + Send + 'a,
    rate: Option<u64>,
) -> impl Stream<Item = Result<T>> + Send + 'a {
    let start = (Box::pin(stream), Pace::new(rate));
    try_unfold(start, |(mut stream, mut pace)| async move {
        let Some(item) = stream.try_next().await? else {
            return Ok(None);
        };
        pace.wait(1).await;
        Ok(Some((item, (stream, pace))))
    })
}

/// Migrates a list, unless its main document is not one of the filter.
async fn migrate(shared: &Shared, summary: Summary, options: &Options<'_>) -> Result<(Bson, Fix)> {
    let fix = match options.dry_run {
        _ if !is_selected(shared, &summary.id, &options.filter).await? => Fix::default(),
        true => dry_run(shared, &summary.id, false).await?,
        false => {
            let mut conn = shared.enter(&summary.id, None).await?;
            rewrite(shared, &summary.id, false, &mut conn).await?
        }
    };
    Ok((summary.id, fix))
}

async fn is_selected(shared: &Shared, id: &Bson, filter: &Document) -> Result<bool> {
    if filter.is_empty() {
        return Ok(true);
    }
    let options = FindOneOptions::builder()
        .projection(doc! { "_id": 1 })
        .selection_criteria(primary())
        .read_concern(ReadConcern::local())
        .build();
    let selected = both(query::by_id(id), filter.clone());
    Ok(send::find_one(&mut Conn::new(), &shared.main, selected, options)
        .await?
        .is_some())
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
        check_migration(shared, &mut steps, false).await?;
        Ok::<_, Error>(iter(steps.into_commands().into_iter().map(Ok)))
    };
    let checked = once(check).try_flatten().chain(once(ready(Ok(scan))));
    Box::pin(until_error(checked.chain(rewrites)))
}
