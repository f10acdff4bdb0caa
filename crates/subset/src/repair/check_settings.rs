//! Checks that the settings fit the stored documents, before they are verified, repaired or migrated.

use futures::TryStreamExt;
use mongo_patterns_core::catalog::{Tally, check_fields};
use mongo_patterns_core::migration::Steps;
use mongo_patterns_core::{Result, send};

use super::finding::Problem;
use crate::query::{options, whole};
use crate::repository::Shared;

/// Compares the settings with the catalog.
pub(crate) async fn check_settings(shared: &Shared) -> Result<()> {
    shared.entry().check(&mut Steps::run()).await.map(drop)
}

/// Compares the settings with the catalog. A repair of collections without an entry also compares them with the
/// documents.
pub(crate) async fn check_repair(shared: &Shared, is_repair: bool) -> Result<()> {
    if shared.entry().check(&mut Steps::run()).await? || !is_repair {
        return Ok(());
    }
    let (parents, children, settings) = (&shared.parents, &shared.children, &shared.settings);
    check_fields(&mut Steps::run(), parents, &[("subset", settings.subset.as_str())]).await?;
    check_fields(&mut Steps::run(), children, &settings.fields_of_child()).await?;
    shared.check_indexes().await?;
    let mut tally = Tally::of(send::estimated_count(parents).await?);
    let stale = whole::stale(settings, children.name(), None);
    let mut stale = send::aggregate_rows(parents, stale, options::scan(None)).await?;
    while stale.try_next().await?.is_some() {
        tally.add(&Problem::Stale)?;
    }
    Ok(())
}
