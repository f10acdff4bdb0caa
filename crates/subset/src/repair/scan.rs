//! The scan for stale parents, and for children without a parent, or with the same id. And the repair of its findings.

use futures::TryStreamExt;
use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::key::stored_integer;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::send::Rows;
use mongo_patterns_core::stored::{id_of, value};
use mongo_patterns_core::verify::{Results, begin, scan};
use mongo_patterns_core::{ErrorKind, Result, send};
use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};

use super::finding::{Finding, Problem, Repaired, Unrepaired};
use crate::query::{options, whole};
use crate::read::deletable;
use crate::repository::Shared;
use crate::settings::Settings;
use crate::write::refresh_parent;

/// The maximum number of reads of a parent that other clients keep writing.
const MAX_READS: usize = 10;
/// The bytes of an empty document: the row of a correct parent.
const EMPTY: usize = 5;
/// The batch size of a scan with a progress callback.
const BATCH: u32 = 1000;

/// Reads all parents, then all children. A finding is returned after a second read has confirmed it.
pub(crate) async fn find_problems(
    shared: &Shared,
    mut reporter: Reporter<'_>,
    mut results: Results<Finding>,
) -> Result<()> {
    let (parents, children, settings) = (&shared.parents, &shared.children, &shared.settings);
    if let Some(mut duplicates) = shared.find_duplicates().await? {
        loop {
            let duplicate = duplicates.next_found().await?;
            let problem = Problem::DuplicateChildId {
                children: duplicate.documents,
            };
            results
                .add(Finding::of_duplicates(parents.namespace(), duplicate, problem))
                .await;
        }
    }
    begin(&mut reporter, [parents]).await?;
    let (stages, batch_size) = match reporter.is_asked() {
        true => (whole::stale_with_progress(settings, children.name()), Some(BATCH)),
        false => (whole::stale(settings, children.name(), None), None),
    };
    let mut rows = aggregate(parents, stages, batch_size).await?;
    while let Some(row) = rows.try_next().await? {
        reporter.advance(1);
        results.add_all(stale(shared, &row).await?).await;
    }
    let mut rows = aggregate(children, whole::orphans(settings, parents.name(), None), None).await?;
    while let Some(row) = rows.try_next().await? {
        results.add_all(orphans(shared, &row).await?).await;
    }
    Ok(())
}

/// Reads the parent of a row of [`whole::stale`] again until two reads in sequence find it stale with the same version.
///
/// An aggregation does not read a parent and its children at one moment. But a new version was written from newer children.
pub(super) async fn stale(shared: &Shared, row: &RawDocument) -> Result<Option<Finding>> {
    if row.as_bytes().len() == EMPTY {
        return Ok(None);
    }
    let (parent, mut version) = (id_of(row), version_of(row));
    let mut before = None;
    for _ in 0..MAX_READS {
        let stale = whole::stale(&shared.settings, shared.children.name(), Some(&parent));
        let mut rows = aggregate(&shared.parents, stale, None).await?;
        let Some(row) = rows.try_next().await? else {
            return Ok(None);
        };
        let (read, children) = (version_of(&row), not_stored(&row));
        // A child that was deleted during the first of two reads with one version would have changed the version.
        if read == version && (children == 0 || before == Some(children)) {
            let problem = match children {
                0 => Problem::Stale,
                _ => Problem::NotStored { children },
            };
            let mut finding = Finding::new(shared.parents.namespace(), parent, problem);
            finding.fields = stale_subsets(&shared.settings, &row);
            return Ok(Some(finding));
        }
        before = (read == version).then_some(children);
        version = read;
    }
    Ok(None)
}

/// Counts the children of the missing parent of a row of [`whole::orphans`] again.
pub(super) async fn orphans(shared: &Shared, row: &RawDocument) -> Result<Option<Finding>> {
    let parent = id_of(row);
    let orphans = whole::orphans(&shared.settings, shared.parents.name(), Some(&parent));
    let mut rows = aggregate(&shared.children, orphans, None).await?;
    let row = rows.try_next().await?;
    Ok(row.map(|row| {
        let children = row.get("children").ok().flatten().and_then(stored_integer);
        let children = children.and_then(|children| children.try_into().ok()).unwrap_or(0);
        Finding::new(shared.parents.namespace(), parent, Problem::Orphaned { children })
    }))
}

/// Returns the fields of the stale subsets, by the row of a parent with several.
fn stale_subsets(settings: &Settings, row: &RawDocument) -> Vec<String> {
    let Ok(is_stale) = row.get_array(whole::STALE) else {
        return Vec::new();
    };
    let is_stale = is_stale
        .into_iter()
        .map(|value| matches!(value, Ok(RawBsonRef::Boolean(true))));
    let stale = settings.subsets.iter().zip(is_stale).filter(|(_, is_stale)| *is_stale);
    stale.map(|(subset, _)| subset.field.as_str().to_owned()).collect()
}

async fn aggregate(
    collection: &Collection<RawDocumentBuf>,
    stages: Vec<Document>,
    batch_size: Option<u32>,
) -> Result<Rows> {
    Ok(send::aggregate_rows(collection, stages, options::scan(batch_size)).await?)
}

/// Returns how many children only the parent of a row embeds.
fn not_stored(row: &RawDocument) -> u64 {
    let children = row.get_i32(whole::NOT_STORED).ok();
    children.and_then(|children| children.try_into().ok()).unwrap_or(0)
}

fn version_of(row: &RawDocument) -> Bson {
    value(row, "version").unwrap_or(Bson::Null)
}

/// Repairs what a scan finds.
pub(crate) fn repairs<'a>(shared: &'a Shared, reporter: Reporter<'a>, dry_run: bool) -> ActionStream<'a, Repaired> {
    let found = scan(move |results| find_problems(shared, reporter, results));
    Box::pin(found.try_filter_map(move |finding| repair(shared, finding, dry_run)))
}

/// Repairs a finding. A dry run only checks whether it can be repaired. `None` if another client has deleted the parent.
async fn repair(shared: &Shared, finding: Finding, dry_run: bool) -> Result<Option<Repaired>> {
    let left = match finding.problem {
        Problem::Orphaned { .. } => Some(Unrepaired::NoParent),
        Problem::DuplicateChildId { .. } => Some(Unrepaired::DuplicateChildId),
        Problem::NotStored { .. } => Some(Unrepaired::NotStored),
        Problem::Stale => match fix(shared, &finding.document_id, dry_run).await {
            Ok(true) => None,
            Ok(false) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotMigrated => Some(Unrepaired::NotMigrated),
            Err(error) => return Err(error),
        },
    };
    Ok(Some(Repaired::new(vec![finding], left)))
}

/// Refreshes a subset. Returns whether the parent exists.
async fn fix(shared: &Shared, parent: &Bson, dry_run: bool) -> Result<bool> {
    if dry_run {
        return Ok(deletable(shared, parent, &mut Conn::new()).await?.is_some());
    }
    Ok(refresh_parent(shared, parent).await?.is_some())
}
