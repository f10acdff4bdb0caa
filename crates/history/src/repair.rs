//! Finds and repairs problems of histories.

mod examine;
pub(crate) mod finding;
pub(crate) mod scan;

use futures::TryStreamExt;
use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::verify::scan;
use mongo_patterns_core::{ErrorKind, Result};
use mongodb::bson::Document;

use self::finding::{Finding, Problem, Repaired, Unrepaired};
use self::scan::find_problems;
use crate::form::document::Head;
use crate::query::change::Change;
use crate::read::find_current;
use crate::repository::Shared;
use crate::write::behind;
use crate::write::change::Request;
use crate::write::joined::change_alone;
use crate::write::record::{Duplicate, insert_copy, refused};

/// Repairs what a scan finds.
pub(crate) fn repairs<'a>(shared: &'a Shared, reporter: Reporter<'a>, dry_run: bool) -> ActionStream<'a, Repaired> {
    let findings = scan(move |results| find_problems(shared, reporter, results));
    Box::pin(findings.try_filter_map(move |finding| repair(shared, finding, dry_run)))
}

/// Repairs a finding. A dry run only checks whether it can be repaired.
async fn repair(shared: &Shared, finding: Finding, dry_run: bool) -> Result<Option<Repaired>> {
    let unrepaired = match finding.problem {
        Problem::Unrecorded { .. } | Problem::Different { .. } | Problem::Ahead { .. } if dry_run => None,
        Problem::Unrecorded { revision } => record(shared, &finding, revision).await?,
        Problem::Different { revision } => record_as_next(shared, &finding, revision).await?,
        Problem::Gap { .. } | Problem::TimeReversed { .. } => Some(Unrepaired::Unknown),
        Problem::Ahead { .. } => unless_invalid(number(shared, &finding).await)?,
        Problem::CurrentMissing { .. } => Some(Unrepaired::CurrentMissing),
        Problem::Invalid => Some(Unrepaired::Invalid),
        Problem::DuplicateId { .. } | Problem::DuplicateRevision { .. } => Some(Unrepaired::Duplicate),
    };
    Ok(Some(Repaired::new(vec![finding], unrepaired)))
}

/// Stores the copy of a current document.
async fn record(shared: &Shared, finding: &Finding, revision: u64) -> Result<Option<Unrepaired>> {
    let id = &finding.document_id;
    let mut conn = shared.enter(id, None).await?;
    let Some(document) = find_current(shared, id, &mut conn).await? else {
        return Ok(None);
    };
    let Some(head) = Head::read(&shared.settings, &document) else {
        return Ok(Some(Unrepaired::Invalid));
    };
    if head.revision != revision {
        return Ok(None);
    }
    let stored = insert_copy(shared, &document, &mut conn).await;
    stored
        .map(|()| None)
        .or_else(|error| match Duplicate::in_error(&shared.settings, &error) {
            // Another client has stored it.
            Some(Duplicate::Revision) => Ok(None),
            Some(Duplicate::Other) => Err(refused()),
            None => Err(error.into()),
        })
}

/// Stores what another program wrote to a current document as its next revision.
async fn record_as_next(shared: &Shared, finding: &Finding, revision: u64) -> Result<Option<Unrepaired>> {
    let id = &finding.document_id;
    let request = Request {
        change: Change::Nothing,
        expected: Some(revision),
        filter: Document::new(),
        with: Document::new(),
    };
    let mut conn = shared.enter(id, None).await?;
    match change_alone(shared, id, &request, &mut conn).await {
        // Another client has stored it as a revision, or deleted the document.
        Err(error) if matches!(error.kind(), ErrorKind::RevisionMismatch | ErrorKind::NotFound) => Ok(None),
        written => unless_invalid(written.map(drop)),
    }
}

/// Stores a current document that is behind its revisions as the next one.
async fn number(shared: &Shared, finding: &Finding) -> Result<()> {
    let id = &finding.document_id;
    let mut conn = shared.enter(id, None).await?;
    behind::number(shared, id, &shared.settings.retry, &mut conn).await
}

fn unless_invalid(done: Result<()>) -> Result<Option<Unrepaired>> {
    match done {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Some(Unrepaired::Invalid)),
        done => done.map(|()| None),
    }
}
