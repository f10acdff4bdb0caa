//! Finds and repairs problems of intervals.
//!
//! # Design
//!
//! ## Why is every suspect read again?
//!
//! A cursor does not read all documents at one moment: it can see a document before a change and its copy after it. So a scan
//! only collects ids, and the intervals of each are read in a transaction.

use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::send::Rows;
use mongo_patterns_core::verify::{Scan, scan};
use mongodb::options::FindOptions;

use super::correct::{Given, corrections, problems};
use super::finding::{Finding, Problem, Repaired, Unrepaired};
use super::query;
use super::repository::Shared;
use crate::prelude::*;

/// How many documents a scan reads at once.
const BATCH: u32 = 1000;

/// Returns what a scan finds, the problems of each id together, and repairs them unless it is only a check.
pub(crate) fn repairs<'a>(shared: &'a Shared, reporter: Reporter<'a>, is_check: bool) -> ActionStream<'a, Repaired> {
    let suspects = Suspects {
        shared,
        reporter,
        rows: None,
        groups: Groups::default(),
    };
    let found = scan(suspects);
    Box::pin(found.try_filter_map(move |id| repair(shared, id, is_check)))
}

/// Repairs the intervals of an id. `None` if there is no problem.
async fn repair(shared: &Shared, id: Bson, is_check: bool) -> Result<Option<Repaired>> {
    let mut conn = shared.enter(&id, None).await?;
    let (collection, retry) = (&shared.collection, &shared.settings.retry);
    let context = (shared, &id, is_check);
    let done = transaction::run(collection, retry, &mut conn, context, |conn, (shared, id, is_check)| {
        Box::pin(repair_in(shared, id, *is_check, conn))
    });
    done.await
}

async fn repair_in(shared: &Shared, id: &Bson, is_check: bool, conn: &mut Conn<'_>) -> Result<Option<Repaired>> {
    let (collection, settings) = (&shared.collection, &shared.settings);
    let options = FindOptions::builder().projection(query::head(settings)).build();
    let rows = conn.find_all(collection, query::of_id(settings, id), options).await?;
    let given: Vec<Given> = rows.iter().map(|row| Given::of(settings, row)).collect();
    let found: Vec<Finding> = problems(&given)
        .into_iter()
        .map(|(one, problem)| {
            let mut finding = Finding::new(collection.namespace(), one.document_id.clone(), problem);
            finding.related_id = Some(one.id.clone());
            finding
        })
        .collect();
    if found.is_empty() {
        return Ok(None);
    }
    let is_invalid = found.iter().any(|finding| finding.problem == Problem::Invalid);
    if !is_invalid && !is_check {
        let corrected = conn.update_in_order(collection, corrections(settings, &given)).await;
        corrected.map_err(lost_race)?;
    }
    Ok(Some(Repaired::new(found, is_invalid.then_some(Unrepaired::Invalid))))
}

/// The intervals of each id, of rows in the order of their ids.
#[derive(Default)]
pub(crate) struct Groups {
    open: Vec<Given>,
}

impl Groups {
    /// Adds the next row. Returns the intervals of the id before, if there is another one.
    pub(crate) fn add(&mut self, next: Given) -> Option<Vec<Given>> {
        let is_same = self.open.last().is_none_or(|last| last.is_of(&next));
        let before = (!is_same).then(|| std::mem::take(&mut self.open));
        self.open.push(next);
        before
    }

    /// Returns the intervals of the last id.
    pub(crate) fn end(&mut self) -> Option<Vec<Given>> {
        let last = std::mem::take(&mut self.open);
        (!last.is_empty()).then_some(last)
    }
}

/// The ids whose intervals seem to have a problem.
struct Suspects<'a> {
    shared: &'a Shared,
    reporter: Reporter<'a>,
    rows: Option<Rows>,
    groups: Groups,
}

impl Scan for Suspects<'_> {
    type Found = Bson;

    async fn next(&mut self) -> Result<Option<Vec<Bson>>> {
        let (collection, settings) = (&self.shared.collection, &self.shared.settings);
        let Some(rows) = &mut self.rows else {
            if self.reporter.is_asked() {
                self.reporter.begin(send::estimated_count(collection).await?);
            }
            let options = FindOptions::builder()
                .sort(query::order(settings, false))
                .projection(query::head(settings))
                .batch_size(BATCH)
                .allow_disk_use(true);
            let rows = send::find_rows(collection, doc! {}, send::latest(options.build())).await?;
            self.rows = Some(rows);
            return Ok(Some(Vec::new()));
        };
        let batch = send::next_rows(rows, BATCH as usize).await?;
        let given = batch.iter().map(|row| Given::of(settings, row));
        let mut groups: Vec<Vec<Given>> = given.filter_map(|one| self.groups.add(one)).collect();
        if batch.is_empty() {
            match self.groups.end() {
                None => return Ok(None),
                last => groups.extend(last),
            }
        }
        self.reporter.advance(batch.len() as u64);
        let suspects = groups.iter().filter(|group| !problems(group).is_empty());
        Ok(Some(
            suspects.filter_map(|group| Some(group.first()?.id.clone())).collect(),
        ))
    }
}
