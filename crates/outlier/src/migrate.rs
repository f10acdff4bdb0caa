//! The migration of existing documents into the form of the repository.
//!
//! # Design
//!
//! ## Why does a plan list the commands of some lists only?
//!
//! They contain the elements. All of them together would be the whole collection in memory.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::ready;
use futures::stream::try_unfold;
use futures::{Stream, TryStreamExt};
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::error::Remedy;
use mongo_patterns_core::migration::{MigrateOptions, MigrationProgress, Pace, and};
use mongo_patterns_core::{PlannedCommand, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, doc};
use mongodb::options::FindOneOptions;

use crate::query;
use crate::repair::check::Summary;
use crate::repair::check_settings::check_migration;
use crate::repair::finding::Unrepaired;
use crate::repair::fix::Fix;
use crate::repair::rewrite::{self, rewrite};
use crate::repair::scan::{summaries_with_progress, until_error};
use crate::repository::Shared;
use crate::results::Migrated;

/// How many lists a plan lists the commands of.
const LISTED: u64 = 100;

/// The migration of existing documents.
pub(crate) struct Existing<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) options: MigrateOptions,
    /// How many lists a plan has listed the commands of.
    pub(crate) listed: AtomicU64,
}

/// What was done with a list, and in a plan the commands.
struct Done {
    id: Bson,
    fix: Fix,
    commands: Vec<PlannedCommand>,
}

impl Existing<'_> {
    /// Rewrites all lists that are not laid out by the settings.
    pub(crate) async fn migrate_all(&self, conn: &mut Conn<'_>, progress: MigrationProgress<'_>) -> Result<Migrated> {
        let (shared, options) = (self.shared, &self.options);
        options.check_selection(conn, &shared.main, &shared.overflow).await?;
        check_migration(shared, conn).await?;
        let is_plan = conn.is_plan();
        let summaries = summaries_with_progress(shared, conn, progress.reporter).await?;
        let summaries = summaries.try_filter(move |summary| ready(!summary.is_laid_out(&shared.settings)));
        let pace = if is_plan { Pace::new(None) } else { progress.pace };
        let done = paced(summaries, pace)
            .map_ok(move |summary| self.migrate(summary, is_plan))
            .try_buffer_unordered(options.concurrency());
        let mut done = until_error(done);
        let list = options.skip_list(&shared.main, &shared.overflow);
        let earlier = match &list {
            Some(list) => list.earlier_runs(conn).await?,
            None => Vec::new(),
        };
        let call = ObjectId::new();
        let mut migrated = Migrated::default();
        let mut skipped = REASONS.map(|reason| (reason, 0));
        let mut first_refused = None;
        while let Some(Done { id, fix, commands }) = done.try_next().await? {
            match fix.unrepaired {
                Some(unrepaired) if fix.has_main => match (&list, reason(&unrepaired)) {
                    (Some(list), Some(reason)) => {
                        let counted = skipped.iter_mut().find(|(name, _)| *name == reason);
                        counted.into_iter().for_each(|(_, lists)| *lists += 1);
                        if self.is_listed(is_plan) {
                            list.add(conn, call, &id, reason).await?;
                        }
                    }
                    _ => drop(first_refused.get_or_insert_with(|| {
                        let refused = fix.refused(unrepaired, shared, &id);
                        refused.with_remedy(Remedy::SkipInvalid)
                    })),
                },
                _ if fix.is_empty() => {}
                _ => {
                    conn.list(commands);
                    migrated.documents += 1;
                    conn.count_migrated(1);
                    migrated.overflow_documents += fix.changes.written.len() as u64;
                }
            }
        }
        if let Some(list) = list {
            migrated.skipped = skipped.into_iter().collect();
            list.remove_runs(conn, earlier).await?;
        }
        first_refused.map_or(Ok(migrated), Err)
    }

    /// Migrates a list, unless its main document is not one of the filter.
    async fn migrate(&self, summary: Summary, is_plan: bool) -> Result<Done> {
        let (shared, id) = (self.shared, summary.id);
        let (fix, commands) = match is_plan {
            _ if !self.is_selected(&id).await? => (Fix::default(), Vec::new()),
            true if self.is_listed(true) => rewrite::plan(shared, &id).await?,
            true => (rewrite::dry_run(shared, &id, false).await?, Vec::new()),
            false => {
                let mut conn = shared.enter(&id, None).await?;
                (rewrite(shared, &id, false, &mut conn).await?, Vec::new())
            }
        };
        Ok(Done { id, fix, commands })
    }

    /// Returns whether the commands of the next list are sent, or listed by a plan.
    fn is_listed(&self, is_plan: bool) -> bool {
        !is_plan || self.listed.fetch_add(1, Ordering::Relaxed) < LISTED
    }

    async fn is_selected(&self, id: &Bson) -> Result<bool> {
        let filter = &self.options.filter;
        if filter.is_empty() {
            return Ok(true);
        }
        let options = FindOneOptions::builder().projection(doc! { "_id": 1 }).build();
        let selected = and(query::by_id(id), filter.clone());
        Ok(Conn::new()
            .find_one(&self.shared.main, selected, options)
            .await?
            .is_some())
    }
}

/// The reasons why lists cannot be migrated.
const REASONS: [&str; 4] = ["no_array", "no_elements", "own_fields", "too_large"];

/// Returns the reason. `None` where it is not the list that is invalid.
fn reason(unrepaired: &Unrepaired) -> Option<&'static str> {
    match unrepaired {
        Unrepaired::ArrayNotArray => Some("no_array"),
        Unrepaired::ElementsNotArray => Some("no_elements"),
        Unrepaired::OwnFields => Some("own_fields"),
        Unrepaired::TooLarge => Some("too_large"),
        Unrepaired::Orphaned => None,
    }
}

/// Pauses before each item, if there is a rate.
fn paced<'a, T: Send + 'a>(
    stream: impl Stream<Item = Result<T>> + Send + 'a,
    pace: Pace,
) -> impl Stream<Item = Result<T>> + Send + 'a {
    try_unfold((Box::pin(stream), pace), |(mut stream, mut pace)| async move {
        let Some(item) = stream.try_next().await? else {
            return Ok(None);
        };
        pace.wait(1).await;
        Ok(Some((item, (stream, pace))))
    })
}
