//! Finds and repairs problems of intervals.
//!
//! # Design
//!
//! ## Why is every suspect read again?
//!
//! A cursor can see a document before a change and its copy after it. So a scan only collects ids, and the intervals of each
//! are read in a transaction.

pub(crate) mod correct;
pub(crate) mod finding;

use futures::TryStreamExt;
use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::stored::value;
use mongo_patterns_core::verify::{Results, begin, scan};
use mongo_patterns_core::{ErrorKind, Result, send, transaction};
use mongodb::bson::{Bson, DateTime, RawDocument, doc};
use mongodb::options::FindOptions;

use self::correct::{StoredInterval, corrections, problems};
use self::finding::{Finding, Repaired, Unrepaired};
use crate::query::{self, NOW};
use crate::repository::Shared;
use crate::results::Corrections;
use crate::write::not_written;

/// How many documents a scan reads at once.
const BATCH: u32 = 1000;

/// Returns what a scan finds, the problems of each id together, and repairs them unless it is only a check.
pub(crate) fn repairs<'a>(shared: &'a Shared, reporter: Reporter<'a>, is_check: bool) -> ActionStream<'a, Repaired> {
    let suspects = scan(move |results| find_suspects(shared, reporter, results));
    Box::pin(suspects.try_filter_map(move |id| repair(shared, id, is_check)))
}

/// Repairs the intervals of an id. `None` if there is no problem.
async fn repair(shared: &Shared, id: Bson, is_check: bool) -> Result<Option<Repaired>> {
    let mut conn = shared.enter(&id, None).await?;
    let (collection, retry) = (&shared.collection, &shared.settings.retry);
    let context = (shared, &id, is_check);
    let done = transaction::run(collection, retry, &mut conn, context, |conn, (shared, id, is_check)| {
        Box::pin(repair_in(shared, id, *is_check, conn))
    });
    match done.await {
        Err(error) if error.kind() == ErrorKind::DuplicateKey => {}
        done => return done,
    }
    let context = (shared, &id);
    let found = transaction::run(collection, retry, &mut conn, context, |conn, (shared, id)| {
        Box::pin(repair_in(shared, id, true, conn))
    });
    let found = found.await?;
    Ok(found.map(|found| {
        Repaired::new(
            found.findings,
            Some(found.unrepaired.unwrap_or(Unrepaired::UniqueIndex)),
        )
    }))
}

async fn repair_in(shared: &Shared, id: &Bson, is_check: bool, conn: &mut Conn<'_>) -> Result<Option<Repaired>> {
    let (collection, settings) = (&shared.collection, &shared.settings);
    let options = FindOptions::builder().projection(query::head_now(settings)).build();
    let rows = conn.find_all(collection, query::of_id(settings, id), options).await?;
    let stored: Vec<StoredInterval> = rows.iter().map(|row| StoredInterval::read(settings, row)).collect();
    let now = rows.first().map_or(DateTime::MIN, |row| time_of(row));
    let findings: Vec<Finding> = problems(&stored, now)
        .into_iter()
        .map(|(interval, problem)| {
            let mut finding = Finding::new(collection.namespace(), interval.document_id.clone(), problem);
            finding.related_id = Some(interval.id.clone());
            finding
        })
        .collect();
    if findings.is_empty() {
        return Ok(None);
    }
    match corrections(settings, &stored, now, &mut Corrections::default()) {
        Err((_, unrepaired)) => Ok(Some(Repaired::new(findings, Some(unrepaired)))),
        Ok(statements) => {
            if !is_check {
                let corrected = conn.update_in_order(collection, statements).await;
                corrected.map_err(|error| not_written(shared, error))?;
            }
            Ok(Some(Repaired::new(findings, None)))
        }
    }
}

/// Returns the time of the server at which a row was read.
pub(crate) fn time_of(row: &RawDocument) -> DateTime {
    let time = value(row, NOW).and_then(|now| now.as_datetime().copied());
    time.unwrap_or_else(DateTime::now)
}

/// The intervals of each id, of rows in the order of their ids.
#[derive(Default)]
pub(crate) struct Groups {
    open: Vec<StoredInterval>,
}

impl Groups {
    /// Adds the next row. Returns the intervals of the previous id, if its last row was read.
    pub(crate) fn add(&mut self, next: StoredInterval) -> Option<Vec<StoredInterval>> {
        let is_same = self.open.last().is_none_or(|last| last.has_same_id(&next));
        let before = (!is_same).then(|| std::mem::take(&mut self.open));
        self.open.push(next);
        before
    }

    /// Returns the intervals of the last id.
    pub(crate) fn end(&mut self) -> Option<Vec<StoredInterval>> {
        let last = std::mem::take(&mut self.open);
        (!last.is_empty()).then_some(last)
    }
}

/// Finds the ids whose intervals seem to have a problem.
async fn find_suspects(shared: &Shared, mut reporter: Reporter<'_>, mut results: Results<Bson>) -> Result<()> {
    let (collection, settings) = (&shared.collection, &shared.settings);
    begin(&mut reporter, [collection]).await?;
    let options = FindOptions::builder()
        .sort(query::order(settings, false))
        .projection(query::head_now(settings))
        .batch_size(BATCH)
        .allow_disk_use(true);
    let mut rows = send::find_rows(collection, doc! {}, send::latest(options.build())).await?;
    let mut groups = Groups::default();
    let mut now = DateTime::MIN;
    while let Some(batch) = send::next_rows(&mut rows, BATCH as usize).await? {
        reporter.advance(batch.len() as u64);
        now = batch.first().map_or(now, |row| time_of(row));
        let stored = batch.iter().map(|row| StoredInterval::read(settings, row));
        let complete: Vec<_> = stored.filter_map(|next| groups.add(next)).collect();
        results.add_all(suspects(complete, now)).await;
    }
    results.add_all(suspects(groups.end(), now)).await;
    Ok(())
}

/// Returns the ids of those groups that seem to have a problem.
fn suspects(groups: impl IntoIterator<Item = Vec<StoredInterval>>, now: DateTime) -> impl Iterator<Item = Bson> {
    let mut suspects = groups.into_iter().filter(move |group| !problems(group, now).is_empty());
    std::iter::from_fn(move || suspects.next()?.into_iter().next().map(|interval| interval.id))
}
