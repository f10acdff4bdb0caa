//! Finds and repairs problems of references.

mod check_version;
pub(crate) mod finding;
pub(crate) mod scan;

use futures::TryStreamExt;
use futures::stream::once;
use mongo_patterns_core::action::ActionStream;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::progress::Reporter;
use mongo_patterns_core::verify::scan;
use mongo_patterns_core::{Error, Result};
use mongodb::bson::Document;

use self::finding::{Problem, Repaired, Unrepaired};
use self::scan::{Found, find_problems, is_still_there};
use crate::form::source::Source;
use crate::query;
use crate::query::{CopyUpdate, options};
use crate::read::find_source;
use crate::repository::Shared;
use crate::results::OnReferences;
use crate::write::delete::update_of;
use crate::write::source::change;
use crate::write::sweep::{sweep, unmark_deleted};

/// Checks the indexes, and repairs what a scan finds.
pub(crate) fn repairs<'a>(
    shared: &'a Shared,
    reporter: Reporter<'a>,
    on_missing: OnReferences,
    dry_run: bool,
) -> ActionStream<'a, Repaired> {
    let findings = async move {
        shared.check_indexes().await?;
        Ok::<_, Error>(scan(move |results| find_problems(shared, reporter, results)))
    };
    let findings = once(findings).try_flatten();
    Box::pin(findings.try_filter_map(move |findings| repair(shared, findings, on_missing, dry_run)))
}

/// Repairs a finding.
async fn repair(
    shared: &Shared,
    findings: Found<'_>,
    on_missing: OnReferences,
    dry_run: bool,
) -> Result<Option<Repaired>> {
    let unrepaired = match findings.finding.problem {
        Problem::NotAReference | Problem::DuplicateSourceKey { .. } => Some(Unrepaired::NotAReference),
        Problem::DbRef | Problem::WithoutId => Some(Unrepaired::WithoutId),
        Problem::SourceMissing if on_missing == OnReferences::Restrict => Some(Unrepaired::SourceMissing),
        _ if dry_run => None,
        // The repair of another copy of the source may have repaired it.
        _ if !is_still_there(shared, &findings).await? => None,
        Problem::SourceMissing => {
            release(shared, &findings, on_missing).await?;
            None
        }
        Problem::Stale { .. } => copy_again(shared, &findings, None).await?,
        Problem::VersionMissing => {
            remove_version(shared, &findings).await?;
            copy_again(shared, &findings, None).await?
        }
        Problem::Differs if shared.has_history().await? => copy_once(shared, &findings).await?,
        Problem::NewerThanSource { .. } if shared.has_history().await? => Some(Unrepaired::NotRecorded),
        Problem::Differs => copy_again(shared, &findings, Some(query::raise_version(&shared.settings, None))).await?,
        Problem::NewerThanSource { version, .. } => {
            let raise = query::raise_version(&shared.settings, Some(version));
            copy_again(shared, &findings, Some(raise)).await?
        }
    };
    Ok(Some(Repaired::new(vec![findings.finding], unrepaired)))
}

/// Copies a source to all of its outdated copies, after its version was raised if that is needed.
async fn copy_again(shared: &Shared, findings: &Found<'_>, raise: Option<Document>) -> Result<Option<Unrepaired>> {
    let Some(id) = &findings.finding.related_id else {
        return Ok(Some(Unrepaired::NotAReference));
    };
    let source = match raise {
        Some(raise) => change(shared, id, raise, &mut Conn::new()).await?,
        None => find_source(shared, id, &mut Conn::new()).await?,
    };
    let Some(source) = source else {
        return Ok(Some(Unrepaired::SourceMissing));
    };
    sweep(shared, &source, &mut Conn::new()).await?;
    if findings.is_deleted {
        // In all documents: the next finding of this source is no longer one by its version.
        unmark_deleted(shared, id, &mut Conn::new()).await?;
    }
    Ok(None)
}

/// Copies a source with a history to the copy of a finding.
async fn copy_once(shared: &Shared, findings: &Found<'_>) -> Result<Option<Unrepaired>> {
    let unrepaired = copy_again(shared, findings, None).await?;
    if let Some(id) = &findings.finding.related_id
        && let Some(source) = find_source(shared, id, &mut Conn::new()).await?
    {
        overwrite(shared, findings, &source).await?;
    }
    Ok(unrepaired)
}

/// Makes a copy that is not newer than its source equal to it. For sources with a history: the next revision makes all
/// copies current again.
pub(crate) async fn overwrite(shared: &Shared, findings: &Found<'_>, source: &Source) -> Result<bool> {
    update_one(
        shared,
        findings,
        CopyUpdate::not_newer(&shared.settings, findings.field, source),
    )
    .await
}

/// Removes an invalid version, such as 7.5: a sweep takes any number that is greater for a newer version.
pub(crate) async fn remove_version(shared: &Shared, findings: &Found<'_>) -> Result<()> {
    let (Some(id), Some(version)) = (&findings.finding.related_id, &findings.version) else {
        return Ok(());
    };
    let update = CopyUpdate::remove_version(&shared.settings, findings.field, id, version);
    update_one(shared, findings, update).await.map(drop)
}

/// Marks a copy without a source, or removes the reference. Returns whether that changed the document.
pub(crate) async fn release(shared: &Shared, findings: &Found<'_>, rule: OnReferences) -> Result<bool> {
    match &findings.finding.related_id {
        Some(id) => update_one(shared, findings, update_of(findings.field, id, rule)).await,
        None => Ok(false),
    }
}

/// Updates the copy in the document of a finding. Returns whether that changed the document.
async fn update_one(shared: &Shared, findings: &Found<'_>, update: CopyUpdate) -> Result<bool> {
    let update = update.of_document(&findings.finding.document_id);
    let options = options::update_copy(&update);
    let collection = shared.collection_of(findings.field);
    let updated = Conn::new()
        .update_one(collection, update.filter, update.update, options)
        .await?;
    Ok(updated.modified_count > 0)
}
