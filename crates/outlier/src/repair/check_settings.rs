//! Checks that the settings fit the stored documents, before they are verified, repaired or migrated.

use mongo_patterns_core::catalog::{Stored, Tally, check_fields, implausible};

use crate::repair::check::check;
use crate::repair::scan::{check_databases, summaries};
use crate::repository::prelude::*;

/// Compares the settings with the catalog.
pub(crate) async fn check_settings(shared: &Shared, id: &Result<Option<DocumentId>>) -> Result<()> {
    check_arguments(shared, id)?;
    shared.entry().check(&mut Steps::run()).await.map(drop)
}

/// Compares the settings with the catalog. A repair of collections without an entry also compares them with the
/// documents.
pub(crate) async fn check_repair(shared: &Shared, id: &Result<Option<DocumentId>>, is_repair: bool) -> Result<()> {
    check_arguments(shared, id)?;
    if shared.entry().check(&mut Steps::run()).await? || !is_repair {
        return Ok(());
    }
    check_documents(shared, &mut Steps::run()).await?;
    if let Ok(None) = id {
        let mut tally = Tally::of(shared.main.estimated_document_count().await?);
        let mut summaries = summaries(shared);
        while let Some(summary) = summaries.try_next().await? {
            for finding in check(&shared.settings, &summary) {
                tally.add(&finding.problem)?;
            }
        }
    }
    Ok(())
}

/// Checks what needs no server.
fn check_arguments(shared: &Shared, id: &Result<Option<DocumentId>>) -> Result<()> {
    match id {
        Ok(Some(_)) => Ok(()),
        Ok(None) => check_databases(shared),
        Err(error) => Err(error.clone()),
    }
}

/// Compares the settings with the catalog, where other limits are accepted, which a migration changes. Without an entry,
/// compares them with the documents.
pub(crate) async fn check_migration(
    shared: &Shared,
    steps: &mut Steps<'_, '_>,
    dry_run: bool,
    force: bool,
) -> Result<()> {
    check_databases(shared)?;
    if !dry_run {
        shared.ensure().check_deployment(steps).await?;
    }
    let entry = shared.entry();
    match entry.check_except(steps, &["threshold", "max_extras_elements"]).await? {
        Stored::Old if !dry_run => entry.replace(steps).await,
        Stored::None if !dry_run && !force => check_documents(shared, steps).await,
        _ => Ok(()),
    }
}

/// Checks that documents have the fields.
async fn check_documents(shared: &Shared, steps: &mut Steps<'_, '_>) -> Result<()> {
    let (main, overflow, settings) = shared.parts();
    check_fields(steps, main, &[("array", settings.array.as_str())]).await?;
    check_fields(steps, overflow, &settings.fields_of_overflow()).await?;
    let has_overflow = has(steps, "look for overflow documents", overflow, doc! {}).await?;
    let filter = match has_overflow {
        true => query::with_flag(settings),
        false => query::flagged(settings),
    };
    if has(steps, "look for the flag", main, filter).await? != has_overflow {
        let (main, flag, overflow) = (main.namespace(), &settings.flag, overflow.namespace());
        return Err(implausible(match has_overflow {
            true => format!("`{overflow}` has overflow documents, and no document of `{main}` has the flag `{flag}`"),
            false => {
                format!("documents of `{main}` have the flag `{flag}`, and `{overflow}` has no overflow documents")
            }
        }));
    }
    Ok(())
}

async fn has(
    steps: &mut Steps<'_, '_>,
    purpose: &'static str,
    collection: &Collection<RawDocumentBuf>,
    filter: Document,
) -> Result<bool> {
    let options = FindOneOptions::builder().projection(doc! { "_id": 1 }).build();
    let found = steps.read(Step::find_one(purpose, collection, filter, options)).await?;
    Ok(!found.documents.is_empty())
}
