//! The check of one document and all of its revisions.

use futures::TryStreamExt;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::verify::pause;
use mongo_patterns_core::{Result, send};
use mongodb::bson::{Bson, RawDocument};

use super::finding::Problem;
use crate::form::document::{Head, is_copy};
use crate::query::{options, scan};
use crate::read::{find_current, find_newest, find_revision};
use crate::repository::Shared;
use crate::settings::Settings;

/// Returns the problems of one document. Writers of this process wait. A problem is read twice, because a writer of another
/// process can commit between the reads.
pub(crate) async fn examine(shared: &Shared, id: &Bson) -> Result<Vec<Problem>> {
    let _lane = shared.enter(id, None).await?;
    let problems = read(shared, id).await?;
    if problems.is_empty() {
        return Ok(problems);
    }
    pause().await?;
    let again = read(shared, id).await?;
    Ok(again.into_iter().filter(|problem| problems.contains(problem)).collect())
}

/// Reads the current document, its revisions, and the current document again. So a revision of the first read has its
/// predecessors, and the second read has seen the newest revision.
async fn read(shared: &Shared, id: &Bson) -> Result<Vec<Problem>> {
    let settings = &shared.settings;
    let mut problems = Vec::new();
    let current = find_current(shared, id, &mut Conn::new()).await?;
    let newest = chain(shared, id, &mut problems).await?;
    match current.as_ref().map(|current| (current, Head::read(settings, current))) {
        Some((_, None)) => problems.push(Problem::Invalid),
        Some((current, _)) if has_field_of_revisions(settings, current) => problems.push(Problem::Invalid),
        Some((current, Some(head))) => {
            let revision = head.revision;
            if let Some(newest) = newest
                && newest.revision + 1 < revision
            {
                let (from, to) = (newest.revision + 1, revision - 1);
                problems.push(Problem::Gap { from, to });
            }
            match find_revision(shared, id, revision, &mut Conn::new()).await? {
                Some(copy) if !is_copy(settings, &shared.known_others(), current, &copy)? => {
                    problems.push(Problem::Different { revision });
                }
                Some(_) => {}
                // Behind a newer revision it was deleted as an old one.
                None if newest.is_none_or(|newest| newest.revision < revision) => {
                    problems.push(Problem::Unrecorded { revision });
                }
                None => {}
            }
        }
        None => {}
    }
    let Some(newest) = newest else {
        return Ok(problems);
    };
    let revision = newest.revision;
    let after = find_current(shared, id, &mut Conn::new()).await?;
    match after.as_ref().map(|after| Head::read(settings, after)) {
        Some(Some(head)) if head.revision < revision => problems.push(Problem::Ahead { revision }),
        None if current.is_none() && !newest.is_deleted => {
            // The document can have been inserted and deleted since the first read.
            let still = find_newest(shared, id, &mut Conn::new())
                .await?
                .and_then(|newest| Head::read(settings, &newest));
            if still.is_some_and(|still| still.revision == revision) {
                problems.push(Problem::CurrentMissing { revision });
            }
        }
        _ => {}
    }
    Ok(problems)
}

/// Returns whether a current document has the field that only revisions have.
pub(super) fn has_field_of_revisions(settings: &Settings, current: &RawDocument) -> bool {
    settings.is_by_id()
        && current
            .get(settings.document_id.as_str())
            .is_ok_and(|value| value.is_some())
}

/// Reads all revisions, and returns the newest.
async fn chain(shared: &Shared, id: &Bson, problems: &mut Vec<Problem>) -> Result<Option<Head>> {
    let settings = &shared.settings;
    let (chain, options) = (scan::chain(settings, Some(id)), options::scan(&settings.revision_index));
    let mut rows = send::aggregate_rows(&shared.revisions, chain, options).await?;
    let mut newest: Option<Head> = None;
    while let Some(row) = rows.try_next().await? {
        let Some(head) = Head::read(settings, &row) else {
            problems.push(Problem::Invalid);
            continue;
        };
        problems.extend(newest.into_iter().flat_map(|previous| between(previous, head)));
        newest = Some(head);
    }
    Ok(newest)
}

/// Returns the problems between two adjacent revisions.
pub(super) fn between(previous: Head, next: Head) -> impl Iterator<Item = Problem> {
    let (from, to) = (previous.revision + 1, next.revision - 1);
    let gap = (from <= to).then_some(Problem::Gap { from, to });
    let revision = next.revision;
    let reversed = (next.time <= previous.time).then_some(Problem::TimeReversed { revision });
    gap.into_iter().chain(reversed)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::DateTime;

    use super::*;

    #[test]
    fn a_gap_and_a_time_that_goes_back_are_found_between_two_revisions() {
        let head = |revision, millis| Head {
            revision,
            time: DateTime::from_millis(millis),
            is_deleted: false,
        };
        let found = |previous, next| between(previous, next).collect::<Vec<_>>();
        assert_eq!(found(head(1, 10), head(2, 11)), []);
        assert_eq!(found(head(1, 10), head(2, 10)), [Problem::TimeReversed { revision: 2 }]);
        let gap = Problem::Gap { from: 2, to: 4 };
        assert_eq!(found(head(1, 10), head(5, 20)), [gap]);
        assert_eq!(
            found(head(1, 10), head(5, 9)),
            [gap, Problem::TimeReversed { revision: 5 }]
        );
    }
}
